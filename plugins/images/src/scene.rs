//! The content of the synthetic photographs: one thing of its class among other things. Knows no pixels.
//!
//! A class is a colour, a surface and a shape: any two of the first ten classes differ in at least two of these, so
//! that one alone does not suffice. Every number is drawn from one generator, and only `+ − × ÷ √` are used, here and
//! in `paint`, so that a photograph is the same on every machine.

use oorandom::Rand64;

/// Red, green and blue of light, 1.0 being white.
pub(crate) type Rgb = [f32; 3];
/// A point or a direction.
pub(crate) type Vector = [f32; 2];

const COLOURS: [(&str, Rgb); 5] = [
    ("red", [0.72, 0.20, 0.16]),
    ("yellow", [0.78, 0.62, 0.16]),
    ("green", [0.22, 0.52, 0.22]),
    ("blue", [0.18, 0.32, 0.66]),
    ("violet", [0.50, 0.26, 0.60]),
];
const SURFACES: [(&str, Surface); 4] = [
    ("plain", Surface::Plain),
    ("striped", Surface::Striped),
    ("dotted", Surface::Dotted),
    ("checked", Surface::Checked),
];
const SHAPES: [(&str, Shape); 7] = [
    ("disc", Shape::Disc),
    ("square", Shape::Polygon(&[[0.8, 0.8], [-0.8, 0.8], [-0.8, -0.8], [0.8, -0.8]])),
    ("triangle", Shape::Polygon(&[[0.0, 1.1], [-0.95, -0.55], [0.95, -0.55]])),
    (
        "star",
        Shape::Polygon(&[
            [0.0, 1.1],
            [-0.28, 0.39],
            [-1.05, 0.34],
            [-0.46, -0.15],
            [-0.65, -0.89],
            [0.0, -0.48],
            [0.65, -0.89],
            [0.46, -0.15],
            [1.05, 0.34],
            [0.28, 0.39],
        ]),
    ),
    ("ring", Shape::Ring),
    (
        "cross",
        Shape::Polygon(&[
            [0.32, 1.0],
            [-0.32, 1.0],
            [-0.32, 0.32],
            [-1.0, 0.32],
            [-1.0, -0.32],
            [-0.32, -0.32],
            [-0.32, -1.0],
            [0.32, -1.0],
            [0.32, -0.32],
            [1.0, -0.32],
            [1.0, 0.32],
            [0.32, 0.32],
        ]),
    ),
    ("crescent", Shape::Crescent),
];
/// The three numbers have no common divisor, so the classes run through all combinations once.
pub(crate) const MAX_CLASSES: usize = COLOURS.len() * SURFACES.len() * SHAPES.len();
/// Pixels that ImageNet's long sides are around.
pub(crate) const LONG_SIDE: u32 = 500;
/// The maximum extent of a thing, in units of its radius.
pub(crate) const REACH: f32 = 1.2;

/// The folder of class number `class`: `red_plain_disc`.
pub(crate) fn class_name(class: usize) -> String {
    let [colour, surface, shape] =
        [COLOURS[class % COLOURS.len()].0, SURFACES[class % SURFACES.len()].0, SHAPES[class % SHAPES.len()].0];
    format!("{colour}_{surface}_{shape}")
}

/// An outline in units of the thing's radius.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Disc,
    Ring,
    Crescent,
    Polygon(&'static [Vector]),
}

impl Shape {
    /// The distance to the outline, negative inside.
    pub(crate) fn distance(self, [x, y]: Vector) -> f32 {
        let centre = (x * x + y * y).sqrt();
        match self {
            Shape::Disc => centre - 1.0,
            Shape::Ring => (centre - 0.76).abs() - 0.27,
            Shape::Crescent => {
                let bite = ((x - 0.5) * (x - 0.5) + y * y).sqrt() - 0.78;
                (centre - 1.0).max(-bite)
            }
            Shape::Polygon(corners) => polygon(corners, [x, y]),
        }
    }
}

fn polygon(corners: &[Vector], [x, y]: Vector) -> f32 {
    let (mut nearest, mut inside) = (f32::MAX, false);
    let mut from = corners[corners.len() - 1];
    for &to in corners {
        let (ex, ey, px, py) = (to[0] - from[0], to[1] - from[1], x - from[0], y - from[1]);
        let along = ((px * ex + py * ey) / (ex * ex + ey * ey)).clamp(0.0, 1.0);
        let (dx, dy) = (px - along * ex, py - along * ey);
        nearest = nearest.min(dx * dx + dy * dy);
        // A ray to the right crosses the outline an odd number of times from inside.
        if (from[1] > y) != (to[1] > y) && px < py / ey * ex {
            inside = !inside;
        }
        from = to;
    }
    if inside { -nearest.sqrt() } else { nearest.sqrt() }
}

/// How a thing is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Surface {
    Plain,
    Striped,
    Dotted,
    Checked,
}

impl Surface {
    /// How much of the second colour there is at a point, `fine` periods a radius.
    pub(crate) fn second(self, [x, y]: Vector, fine: f32) -> f32 {
        let (u, v) = (wave(x * fine), wave(y * fine));
        let soft = |value: f32| (0.5 + 3.0 * value).clamp(0.0, 1.0);
        match self {
            Surface::Plain => 0.0,
            Surface::Striped => soft(u - 0.5),
            Surface::Dotted => soft(0.31 - (u * u + v * v)),
            Surface::Checked => soft((u - 0.5) * (v - 0.5) * 4.0),
        }
    }
}

/// A triangle wave of period 1, between 0 and 1.
fn wave(x: f32) -> f32 {
    2.0 * (x - x.floor() - 0.5).abs()
}

/// A thing in the picture.
#[derive(Clone, Debug)]
pub(crate) struct SceneObject {
    pub(crate) shape: Shape,
    pub(crate) surface: Surface,
    pub(crate) fine: f32,
    pub(crate) first: Rgb,
    pub(crate) second: Rgb,
    pub(crate) centre: Vector,
    pub(crate) radius: f32,
    /// The direction of its own x axis, of length 1.
    pub(crate) axis: Vector,
}

/// One photograph before it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) quality: u8,
    /// The colours of the ground, mixed by two noises and split by a horizon.
    pub(crate) ground: [Rgb; 3],
    /// Pixels a period of the coarse noise, and of the grain.
    pub(crate) scales: [f32; 2],
    pub(crate) grain: f32,
    /// Where the two noises start.
    pub(crate) offsets: [Vector; 2],
    /// Across the picture: its direction, and where it lies.
    pub(crate) horizon: (Vector, f32),
    /// From back to front; the last is what the photograph shows.
    pub(crate) things: Vec<SceneObject>,
    /// The direction of the light; its length is the contrast.
    pub(crate) light: Vector,
    pub(crate) exposure: Rgb,
    /// The sensor's noise, as a part of white.
    pub(crate) noise: f32,
    /// The seed of that noise.
    pub(crate) film: u64,
}

/// Photograph number `index` of the set `seed`, of class number `class`, its long side around so many pixels.
pub(crate) fn draw(seed: u64, index: u64, class: usize, long_side: u32) -> Scene {
    // Neighbouring seeds and numbers must not give neighbouring streams.
    let mix = (u128::from(seed) << 64 | u128::from(index)).wrapping_add(1);
    let mut dice = Dice(Rand64::new(mix.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)));
    for _ in 0..4 {
        dice.unit();
    }
    let (width, height) = dice.size(long_side);
    let short = width.min(height) as f32;
    let middle = [width as f32 / 2.0, height as f32 / 2.0];
    let clutter = 3 + (dice.unit() * 7.0) as usize;
    let mut things: Vec<_> = (0..clutter)
        .map(|_| {
            let centre = [dice.unit() * width as f32, dice.unit() * height as f32];
            let radius = short * dice.between(0.04, 0.13);
            let first = dice.colour();
            let second = dice.colour();
            let surface = SURFACES[dice.below(SURFACES.len())].1;
            let shape = SHAPES[dice.below(SHAPES.len())].1;
            dice.thing(shape, surface, [first, second], centre, radius)
        })
        .collect();
    let (colour, surface, shape) =
        (COLOURS[class % COLOURS.len()].1, SURFACES[class % SURFACES.len()].1, SHAPES[class % SHAPES.len()].1);
    let first = colour.map(|channel| (channel + dice.between(-0.15, 0.15)).clamp(0.03, 0.95));
    let light = dice.unit() < 0.5;
    let second = first.map(|channel| if light { 0.35 + 0.6 * channel } else { 0.45 * channel });
    let centre = middle.map(|middle| middle + short * dice.between(-0.16, 0.16));
    let radius = short * dice.between(0.20, 0.40);
    things.push(dice.thing(shape, surface, [first, second], centre, radius));

    let exposure = dice.between(0.62, 1.2);
    let contrast = dice.between(0.1, 0.5);
    Scene {
        width,
        height,
        quality: 90 + (dice.unit() * 7.0) as u8,
        ground: [dice.colour(), dice.colour(), dice.colour()],
        scales: [short * dice.between(0.4, 1.3), dice.between(60.0, 130.0)],
        grain: dice.between(0.3, 1.0),
        offsets: [[dice.unit(), dice.unit()], [dice.unit(), dice.unit()]],
        horizon: (dice.direction(), dice.between(-0.8, 0.8)),
        things,
        light: dice.direction().map(|part| part * contrast),
        exposure: [0; 3].map(|_| exposure * dice.between(0.86, 1.14)),
        noise: dice.between(0.012, 0.05),
        film: dice.0.rand_u64(),
    }
}

struct Dice(Rand64);

impl Dice {
    /// Between 0 and 1.
    fn unit(&mut self) -> f32 {
        self.0.rand_float() as f32
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f32) as usize).min(end - 1)
    }

    /// The colours of the world: mostly dull.
    fn colour(&mut self) -> Rgb {
        let (grey, vivid) = (self.between(0.12, 0.85), self.unit() * self.unit() * 0.5);
        [0; 3].map(|_| (grey + vivid * self.between(-1.0, 1.0)).clamp(0.02, 0.98))
    }

    /// A random direction of length 1, without trigonometric functions.
    fn direction(&mut self) -> Vector {
        loop {
            let (x, y) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.01 && square <= 1.0 {
                return [x / square.sqrt(), y / square.sqrt()];
            }
        }
    }

    /// Mostly 4:3, as in ImageNet, where long sides are around 500 pixels; two in a hundred come straight from a phone.
    fn size(&mut self, long_side: u32) -> (u32, u32) {
        let phone = self.unit() < 0.02;
        let of_imagenet = if phone { self.between(1280.0, 2000.0) } else { self.between(370.0, 650.0) };
        let long = of_imagenet * (long_side as f32 / LONG_SIDE as f32);
        let ratio = if self.unit() < 0.6 { 0.75 } else { self.between(0.6, 1.0) };
        let (long, short) = (long as u32, (long * ratio) as u32);
        if self.unit() < 0.72 { (long, short) } else { (short, long) }
    }

    fn thing(&mut self, shape: Shape, surface: Surface, colours: [Rgb; 2], centre: Vector, radius: f32) -> SceneObject {
        let [first, second] = colours;
        SceneObject {
            shape,
            surface,
            fine: self.between(1.3, 2.2),
            first,
            second,
            centre,
            radius,
            axis: self.direction(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn classes_are_all_different_and_the_first_ten_in_two_ways() {
        let names: BTreeSet<_> = (0..MAX_CLASSES).map(class_name).collect();
        assert_eq!(names.len(), MAX_CLASSES);
        for a in 0..10_usize {
            for b in 0..a {
                let same = [COLOURS.len(), SURFACES.len(), SHAPES.len()].iter().filter(|&n| a % n == b % n).count();
                assert!(same <= 1, "{} and {}", class_name(a), class_name(b));
            }
        }
    }

    #[test]
    fn outlines_are_closed_and_within_reach() {
        for (name, shape) in SHAPES {
            for step in 0..400 {
                let (x, y) = ((step % 20) as f32 / 5.0 - 1.9, (step / 20) as f32 / 5.0 - 1.9);
                let outside = x * x + y * y > REACH * REACH;
                assert!(!outside || shape.distance([x, y]) > 0.0, "{name} at {x}, {y}");
            }
        }
    }

    #[test]
    fn sizes_are_those_of_photographs() {
        let scenes: Vec<_> = (0..2000).map(|index| draw(8, index, 0, LONG_SIDE)).collect();
        let pixels: u64 = scenes.iter().map(|scene| u64::from(scene.width) * u64::from(scene.height)).sum();
        let mean = pixels / 2000;
        assert!((180_000..260_000).contains(&mean), "{mean} pixels");
        let phones = scenes.iter().filter(|scene| scene.width.max(scene.height) >= 1280).count();
        assert!((20..70).contains(&phones), "{phones} phones");
        for (index, scene) in scenes.iter().enumerate() {
            let larger = draw(8, index as u64, 0, 2 * LONG_SIDE);
            assert!(larger.width.abs_diff(2 * scene.width) <= 1 && larger.height.abs_diff(2 * scene.height) <= 1);
        }
    }
}
