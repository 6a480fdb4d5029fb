//! Compiles the serialization of reasons only once. serde's derived code is compiled again for each crate that uses it,
//! each format, and each enum or flattened struct around it. It was half of the store's compiled code.

/// Implements serde's traits for types that derive them with `#[serde(remote = "Self")]`, for JSON only. Writing goes
/// through a trait object, reading through a value, which keeps no key order.
macro_rules! compiled_once {
    ($($name:ident),* $(,)?) => { $(
        const _: () = {
            struct Remote<'a>(&'a $name);

            impl serde::Serialize for Remote<'_> {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    $name::serialize(self.0, serializer)
                }
            }

            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    erased_serde::serialize(erased(&Remote(self)), serializer)
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let value = serde::Deserialize::deserialize(deserializer)?;
                    read(value).map_err(serde::de::Error::custom)
                }
            }

            // Inlined, both would be compiled at each call.
            #[inline(never)]
            fn erased<'a>(this: &'a Remote<'a>) -> &'a dyn erased_serde::Serialize {
                this
            }

            #[inline(never)]
            fn read(value: serde_json::Value) -> serde_json::Result<$name> {
                $name::deserialize(value)
            }
        };
    )* };
}
pub(crate) use compiled_once;
