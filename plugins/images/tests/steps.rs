//! The program as the engine starts it, on good, bad and hostile folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_plugin::harness::{Harness, Report};
use serde_json::{Value, json};

fn run(harness: Harness) -> Report {
    harness.run(&mut Command::new(env!("CARGO_BIN_EXE_flow-images")))
}

fn source(with: Value) -> Harness {
    let harness = Harness::new("source").output("out", "out/photos").cpus(2);
    with.as_object().unwrap().iter().fold(harness, |harness, (name, value)| harness.with(name, value.clone()))
}

fn prepare(photos: &Path, version: &str, size: u32) -> Harness {
    let harness = Harness::new("prepare").output("out", "out/dataset").cpus(2).input("in/source", photos);
    harness.with("photos", "in/source").with("version", version).with("size", size)
}

/// Every file below a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn json_of(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn png(
    colour: png::ColorType,
    depth: png::BitDepth,
    width: u32,
    height: u32,
    edit: impl Fn(&mut png::Encoder<'_, &mut Vec<u8>>),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    edit(&mut encoder);
    let mut writer = encoder.write_header().unwrap();
    let row = (width as usize * colour.samples() * depth as usize).div_ceil(8);
    let data: Vec<u8> =
        (0..row * height as usize).map(|i| if colour == png::ColorType::Indexed { 0 } else { i as u8 }).collect();
    writer.write_image_data(&data).unwrap();
    writer.finish().unwrap();
    bytes
}

fn jpeg(colour: jpeg_encoder::ColorType, channels: usize, width: u16, height: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * channels).map(|i| (i * 7) as u8).collect();
    let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
    encoder.set_progressive(channels == 1);
    encoder.encode(&pixels, width, height, colour).unwrap();
    bytes
}

/// Class folders with everything that people's folders hold.
fn zoo() -> tempfile::TempDir {
    use jpeg_encoder::ColorType as Jpeg;
    use png::{BitDepth::*, ColorType as Png};
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, bytes: &[u8]| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let photo = jpeg(Jpeg::Rgb, 3, 60, 40);
    put("cat/plain.jpg", &photo);
    put("cat/UPPER.JPEG", &photo);
    put("cat/猫.jpg", &photo);
    put("cat/progressive_grey.jpg", &jpeg(Jpeg::Luma, 1, 33, 50));
    put("cat/cmyk.jpg", &jpeg(Jpeg::Cmyk, 4, 40, 40));
    put("cat/one_pixel.jpg", &jpeg(Jpeg::Rgb, 3, 1, 1));
    put("dog/rgb.png", &png(Png::Rgb, Eight, 30, 20, |_| {}));
    put("dog/grey.png", &png(Png::Grayscale, Eight, 30, 20, |_| {}));
    put("dog/bits.png", &png(Png::Grayscale, One, 30, 20, |_| {}));
    put("dog/deep.png", &png(Png::Rgb, Sixteen, 30, 20, |_| {}));
    put("dog/alpha.png", &png(Png::Rgba, Eight, 30, 20, |_| {}));
    put("dog/grey_alpha.png", &png(Png::GrayscaleAlpha, Sixteen, 30, 20, |_| {}));
    put("dog/palette.png", &png(Png::Indexed, Four, 30, 20, |e| e.set_palette(vec![200, 100, 50])));
    put("dog/animated.png", &png(Png::Rgb, Eight, 30, 20, |e| e.set_animated(1, 0).unwrap()));
    put("dog/really_a_photo.png", &photo);
    // And what is none.
    put("cat/truncated.jpg", &photo[..photo.len() / 2]);
    put("cat/notes.txt", b"which cat is this?");
    put("cat/empty.jpg", b"");
    put("cat/head.jpg", &photo[..3]);
    put("cat/.DS_Store", b"\0\0\0\x01Bud1");
    put("cat/page.jpg", b"<html>404</html>");
    let whole = png(Png::Rgb, Eight, 30, 20, |_| {});
    put("dog/truncated.png", &whole[..whole.len() / 2]);
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]); // 65536 × 65536, with a wrong checksum
    put("dog/huge.png", &huge);
    let mut vast = photo.clone();
    let frame = vast.windows(2).position(|marker| marker == [0xFF, 0xC0]).unwrap();
    vast[frame + 5..frame + 9].copy_from_slice(&[0xFF; 4]); // 65535 × 65535
    put("dog/vast.jpg", &vast);
    put("dog/more/nested.jpg", &photo);
    put("README.md", b"my photographs");
    fs::create_dir(folder.path().join(".git")).unwrap();
    std::os::unix::fs::symlink("nowhere.jpg", folder.path().join("cat/broken_link.jpg")).unwrap();
    std::os::unix::fs::symlink("plain.jpg", folder.path().join("cat/link.jpg")).unwrap();
    let pipe = folder.path().join("cat/pipe.jpg");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    folder
}

#[test]
fn every_kind_of_photograph_is_taken_and_the_rest_is_named() {
    let zoo = zoo();
    let report = run(source(json!({"folder": zoo.path()})));
    report.expect_ok();
    let summary = json_of(report.output("out").join("source.json"));
    let ignored: Vec<_> = summary["ignored"].as_array().unwrap().iter().collect();
    let ignored: Vec<_> = ignored
        .iter()
        .map(|entry| format!("{}: {}", entry["path"].as_str().unwrap(), entry["why"].as_str().unwrap()))
        .collect();
    insta::assert_snapshot!(ignored.join("\n"), @"
    .git: hidden
    README.md: a file outside the class folders
    cat/.DS_Store: hidden
    cat/broken_link.jpg: No such file or directory (os error 2)
    cat/empty.jpg: empty file
    cat/head.jpg: broken JPEG: I/O errors Not enough bytes, expected 1 but found 0
    cat/notes.txt: neither JPEG nor PNG
    cat/page.jpg: neither JPEG nor PNG
    cat/pipe.jpg: neither a file nor a folder
    cat/truncated.jpg: broken JPEG: Exhausted data in the image
    dog/huge.png: broken PNG: CRC error: expected 0x15c91a93 have 0xe3e6a7b4 while decoding ChunkType { type: IHDR, critical: true, private: false, reserved: false, safecopy: false } chunk.
    dog/more: a folder inside a class folder
    dog/truncated.png: broken PNG: unexpected end of file
    dog/vast.jpg: 65535×65535 pixels, more than 100 million
    ");
    assert_eq!(report.metric("ignored"), Some(ignored.len() as f64));
    assert!(ignored.iter().all(|line| report.log.contains(line)), "{}", report.log);
    let taken: Vec<_> = files(&report.output("out")).into_keys().map(|path| path.display().to_string()).collect();
    insta::assert_snapshot!(taken.join("\n"), @"
    cat/UPPER.JPEG
    cat/cmyk.jpg
    cat/link.jpg
    cat/one_pixel.jpg
    cat/plain.jpg
    cat/progressive_grey.jpg
    cat/猫.jpg
    dog/alpha.png
    dog/animated.png
    dog/bits.png
    dog/deep.png
    dog/grey.png
    dog/grey_alpha.png
    dog/palette.png
    dog/really_a_photo.png.jpg
    dog/rgb.png
    source.json
    ");
    assert_eq!(report.metric("photos"), Some(taken.len() as f64 - 1.0));
    assert_eq!(report.metric("classes"), Some(2.0));
    // The original bytes, and nothing that leads outside.
    let link = report.output("out").join("cat/link.jpg");
    assert!(!link.is_symlink());
    assert_eq!(fs::read(link).unwrap(), fs::read(zoo.path().join("cat/plain.jpg")).unwrap());

    for (version, size) in [("v7", 32), ("v11", 32)] {
        let dataset = run(prepare(&report.output("out"), version, size));
        dataset.expect_ok();
        assert_eq!(dataset.metric("images"), Some(taken.len() as f64 - 1.0));
        assert_eq!(dataset.metric("broken"), Some(0.0));
    }
}

#[test]
fn a_folder_without_photographs_says_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let said = |with: &Path| {
        let report = run(source(json!({"folder": with})));
        assert!(!report.success);
        report.expect_failed().replace(&*folder.path().to_string_lossy(), "PETS")
    };
    insta::assert_snapshot!(said(&folder.path().join("missing")), @"cannot read PETS/missing: No such file or directory (os error 2); expected a folder of class folders with JPEG or PNG files, such as cat/1.jpg and dog/1.jpg");
    insta::assert_snapshot!(said(folder.path()), @"no photograph in PETS: expected a folder of class folders with JPEG or PNG files, such as cat/1.jpg and dog/1.jpg; found nothing");
    fs::write(folder.path().join("1.jpg"), jpeg(jpeg_encoder::ColorType::Rgb, 3, 8, 8)).unwrap();
    insta::assert_snapshot!(said(folder.path()), @"no photograph in PETS: expected a folder of class folders with JPEG or PNG files, such as cat/1.jpg and dog/1.jpg; found no class folder");
    let photo = jpeg(jpeg_encoder::ColorType::Rgb, 3, 8, 8);
    fs::create_dir(folder.path().join("cat")).unwrap();
    insta::assert_snapshot!(said(folder.path()), @"no photograph in PETS: expected a folder of class folders with JPEG or PNG files, such as cat/1.jpg and dog/1.jpg; found class folders without a file");
    fs::write(folder.path().join("cat/notes.txt"), "no photograph").unwrap();
    insta::assert_snapshot!(said(folder.path()), @"no photograph in PETS: none of its 1 files is a whole JPEG or PNG; the first: 1.jpg: a file outside the class folders");
    // One class of two would be missing in the training, and nobody would notice.
    fs::create_dir(folder.path().join("dog")).unwrap();
    fs::write(folder.path().join("dog/1.jpg"), photo).unwrap();
    insta::assert_snapshot!(said(folder.path()), @"the class folder `cat` in PETS has no whole JPEG or PNG: add photographs, or remove the folder");
}

#[test]
fn a_synthetic_set_is_the_same_every_time() {
    let draw = |cpus, seed: u64| {
        let report = run(source(json!({"classes": 3, "count": 7, "seed": seed})).cpus(cpus));
        report.expect_ok();
        assert_eq!((report.metric("photos"), report.metric("classes")), (Some(7.0), Some(3.0)));
        files(&report.output("out"))
    };
    let first = draw(1, 8);
    assert!(first == draw(3, 8), "the number of threads changed the set");
    assert!(first != draw(2, 9), "the seed changed nothing");
    // Frozen: the same on every machine, and an update of a library that changes the bytes does not go unnoticed.
    let lengths: Vec<_> = first.iter().map(|(path, bytes)| format!("{} {}", path.display(), bytes.len())).collect();
    insta::assert_snapshot!(lengths.join("\n"), @"
    green_dotted_triangle/00002.jpg 54707
    green_dotted_triangle/00005.jpg 26838
    red_plain_disc/00000.jpg 23208
    red_plain_disc/00003.jpg 84848
    red_plain_disc/00006.jpg 75152
    source.json 179
    yellow_striped_square/00001.jpg 40494
    yellow_striped_square/00004.jpg 54626
    ");
}

#[test]
fn parameters_that_cannot_be_drawn() {
    let report = run(source(json!({"classes": 10, "count": 9})));
    insta::assert_snapshot!(report.expect_failed(), @"cannot draw 9 photographs of 10 classes: expected 1 to 140 classes, and one photograph each");
}

#[test]
fn v7_keeps_the_photographs_and_v11_stores_their_centre_once() {
    let photos = run(source(json!({"classes": 2, "count": 4, "seed": 1})));
    photos.expect_ok();
    let read = |version| {
        let report = run(prepare(&photos.output("out"), version, 48));
        report.expect_ok();
        (json_of(report.output("out").join("dataset.json")), files(&report.output("out").join("images")))
    };
    let (dataset, images) = read("v7");
    let expected = json!({
        "classes": ["red_plain_disc", "yellow_striped_square"], "format": 1, "size": 48, "version": "v7",
        "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225],
        "samples": [
            ["red_plain_disc/00000.jpg", 0], ["red_plain_disc/00002.jpg", 0],
            ["yellow_striped_square/00001.jpg", 1], ["yellow_striped_square/00003.jpg", 1],
        ],
    });
    assert_eq!(dataset, expected);
    let mut originals = files(&photos.output("out"));
    originals.remove(Path::new("source.json"));
    assert!(images == originals, "v7 holds the photographs themselves");

    let (dataset, images) = read("v11");
    assert_eq!(dataset["version"], "v11");
    assert_eq!(images.keys().collect::<Vec<_>>(), originals.keys().collect::<Vec<_>>());
    for bytes in images.values() {
        let mut decoder = zune_jpeg::JpegDecoder::new(zune_core::bytestream::ZCursor::new(&bytes[..]));
        decoder.decode_headers().unwrap();
        let info = decoder.info().unwrap();
        assert_eq!((info.width, info.height), (48, 48));
    }
}

#[test]
fn the_centre_square_is_the_middle_of_the_photograph() {
    // Red, green and blue columns of equal width: only the middle one is left.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("stripes")).unwrap();
    let pixels: Vec<u8> = (0..90 * 30).flat_map(|i| [[250, 0, 0], [0, 250, 0], [0, 0, 250]][i % 90 / 30]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 90, 30);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    fs::write(folder.path().join("stripes/a.png"), &bytes).unwrap();
    fs::write(folder.path().join("stripes/a.png.jpg"), jpeg(jpeg_encoder::ColorType::Rgb, 3, 8, 8)).unwrap();

    let report = run(prepare(folder.path(), "v11", 16));
    report.expect_ok();
    let images = files(&report.output("out").join("images"));
    assert_eq!(images.len(), 2, "two photographs of one name: {:?}", images.keys());
    let bytes = &images[Path::new("stripes/a.png.jpg")];
    let rgb = zune_jpeg::JpegDecoder::new(zune_core::bytestream::ZCursor::new(&bytes[..])).decode().unwrap();
    let [red, green, blue] = [0, 1, 2].map(|c| rgb[c + 3 * (8 * 16 + 8)]);
    assert!(red < 20 && green > 230 && blue < 20, "{red} {green} {blue}");
}

#[test]
fn the_manifest_and_the_program_agree() {
    let manifest: Value = serde_yaml::from_str(include_str!("../plugin.yaml")).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let known = json!({"source": {"folder": null, "classes": 10, "count": 2000, "long_side": 500, "seed": null},
        "prepare": {"photos": "in/source", "version": "v11", "size": 224, "quality": 95}});
    for (name, step) in manifest["steps"].as_object().unwrap() {
        jsonschema::meta::validate(&step["with"]).unwrap();
        let properties = step["with"]["properties"].as_object().unwrap();
        let own = known[name].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), own.keys().collect::<Vec<_>>(), "{name}");
        jsonschema::validate(&step["with"], &known[name]).unwrap();
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{name}.{key} is not described");
            if let Some(default) = property.get("default") {
                assert_eq!(*default, own[key], "the default of {name}.{key}");
            }
        }
    }
}
