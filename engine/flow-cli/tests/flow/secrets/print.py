#!/usr/bin/env python3
"""Prints secrets as they are, in JSON and in base64. `print.py forms` prints the forms; otherwise it is a step's program, of a command
or of a plugin, that prints them over and over until a file `stop` lies beside the workflow."""
import base64, json, os, sys, time


def inside_base64(secret, before):
    """What is of the secret alone in the base64 of it behind so many bytes."""
    raw = secret.encode()
    text = base64.b64encode(b"u" * before + raw).decode()
    return text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]


def in_json(text):
    return {json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}


def forms():
    found = {os.environ["TOKEN"]} | in_json(os.environ["TOKEN"])
    for before in range(4):
        text = inside_base64(os.environ["TOKEN"], before)
        found |= {text, text.replace("+", "-").replace("/", "_")}
    found |= {line for line in os.environ["KEY"].splitlines() if len(line) > 8}
    return sorted(found | {os.environ["KEY"].strip()} | in_json(os.environ["KEY"].strip()))


def write_in_two(fd, text):
    """In two pieces, so that a look may fall between them."""
    raw = (text + "\n").encode()
    os.write(fd, raw[: len(raw) // 2])
    time.sleep(0.002)
    os.write(fd, raw[len(raw) // 2 :])


def message(**fields):
    for ascii in True, False:
        with open(os.environ["FLOW_ATTEMPT"] + "/messages.jsonl", "a") as file:
            file.write(json.dumps(fields, ensure_ascii=ascii) + "\n")


def program(stop):
    while True:
        for form in forms():
            write_in_two(1, form)
            write_in_two(2, form)
        print("GET / HTTP/1.1\nAuthorization: Basic", base64.b64encode(b"user:" + os.environb[b"TOKEN"]).decode(), flush=True)
        print(os.environ["KEY"], flush=True)
        if os.path.exists(stop):
            os.makedirs("out/" + os.environ["TOKEN"].replace("/", "|"), exist_ok=True)
            # Its last words are those of its failure.
            sys.exit(forms()[0] + " " + os.environ["TOKEN"])


def plugin(stop):
    message(type="hello", protocol=1, plugin="print", version=os.environ["TOKEN"])
    while True:
        for form in forms():
            message(type="hello", protocol=1, plugin="print", version="1", facts={form: form, "form": form})
            message(type="progress", fraction=0.5, text=form)
            message(type="metric", name="printed", value=1, unit=form, epoch=1)
            message(type="future", **{form: form})
            message(type="epoch", epoch=1, started_at=1, ended_at=2)
        with open(os.environ["FLOW_ATTEMPT"] + "/messages.jsonl", "a") as file:
            # Legal, and nobody's form: each character by its number.
            letters = "".join(f"\\u{ord(letter):04x}" for letter in os.environ["TOKEN"])
            file.write('{"type":"progress","fraction":0.5,"text":"%s"}\n' % letters)
            file.write('{"type":"hello","protocol":1,"plugin":"print","version":"1","facts":{"%s":"%s"}}\n' % (letters, letters))
        if os.path.exists(stop):
            message(type="outcome", outcome="failed", message=" ".join(forms()))
            sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["forms"]:
        # As they are, and as they stand within a message.
        within = {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms() for ascii in (True, False)}
        print(json.dumps(sorted(within | set(forms()))))
    elif sys.argv[1:]:
        program(sys.argv[1])
    else:
        with open(os.environ["FLOW_ATTEMPT"] + "/request.json") as file:
            plugin(json.load(file)["with"]["stop"])
