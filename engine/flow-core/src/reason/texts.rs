//! The texts in a reason: messages and names from elsewhere. The compiler checks that every field is covered.

use serde_json::Value;

use crate::{Outcome, Span, verdict::Call};

/// Something that may hold texts.
pub trait Texts {
    /// Passes on each text, to be read or replaced.
    fn texts(&mut self, each: &mut dyn FnMut(&mut String));
}

impl Texts for String {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        each(self);
    }
}

impl<T: Texts> Texts for Option<T> {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|one| one.texts(each));
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|one| one.texts(each));
    }
}

impl<T: Texts + ?Sized> Texts for Box<T> {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        (**self).texts(each);
    }
}

impl Texts for Value {
    fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            Value::String(text) => each(text),
            Value::Array(list) => list.iter_mut().for_each(|one| one.texts(each)),
            Value::Object(map) => map.values_mut().for_each(|one| one.texts(each)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// [`Texts`] for types without any.
macro_rules! without {
    ($($name:ty),*) => { $(
        impl Texts for $name {
            fn texts(&mut self, _: &mut dyn FnMut(&mut String)) {}
        }
    )* };
}
pub(super) use without;
without!(bool, u32, u64, i32, Outcome, Span, Call);

/// [`Texts`] for enums, by their variants with all fields.
macro_rules! texts {
    ($($name:ident { $($variant:ident { $($field:ident),* }),* $(,)? })*) => { $(
        impl Texts for $name {
            fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
                match self {
                    $( $name::$variant { $($field),* } => { $( $field.texts(each); )* } )*
                }
            }
        }
    )* };
}
pub(crate) use texts;
