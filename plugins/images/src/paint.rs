//! A scene to pixels to JPEG. Knows nothing of classes; draws nothing at random that the scene does not hold.
//!
//! Photographs have energy at all scales, falling as 1/f; flat drawings do not, and their JPEG files are small and
//! decode quickly. Hence a ground of 1/f noise, light, soft edges, and a sensor's noise.

use crate::decode::Photo;
use crate::scene::{REACH, Rgb, Scene, SceneObject, Vector};

/// The side of the tile, a power of two.
const SIDE: usize = 512;

/// A tile of 1/f noise that repeats itself seamlessly, the same for all photographs: they read it at different places
/// and scales.
pub(crate) struct Painter {
    tile: Vec<[f32; SIDE]>,
}

impl Painter {
    pub(crate) fn new() -> Self {
        let mut tile = vec![[0.0; SIDE]; SIDE];
        let (mut cells, mut amplitude) = (4, 0.5);
        while cells <= SIDE / 2 {
            let step = SIDE / cells;
            for (i, value) in tile.iter_mut().flatten().enumerate() {
                let (x, y) = (i % SIDE, i / SIDE);
                let (cx, cy) = (x / step, y / step);
                let corner = |dx: usize, dy: usize| {
                    lattice((cells as u64) << 32 | ((cy + dy) % cells * cells + (cx + dx) % cells) as u64)
                };
                let (u, v) = (smooth((x % step) as f32 / step as f32), smooth((y % step) as f32 / step as f32));
                let top = mix(corner(0, 0), corner(1, 0), u);
                let bottom = mix(corner(0, 1), corner(1, 1), u);
                *value += amplitude * mix(top, bottom, v);
            }
            cells *= 2;
            amplitude *= 0.82;
        }
        Self { tile }
    }

    /// The photograph as a JPEG file.
    pub(crate) fn jpeg(&self, scene: &Scene) -> Result<Vec<u8>, jpeg_encoder::EncodingError> {
        let photo = self.paint(scene);
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, scene.quality);
        // What cameras and phones write.
        encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
        let (width, height) = (photo.width as u16, photo.height as u16);
        encoder.encode(&photo.rgb, width, height, jpeg_encoder::ColorType::Rgb)?;
        Ok(bytes)
    }

    fn paint(&self, scene: &Scene) -> Photo {
        let (width, height) = (scene.width as usize, scene.height as usize);
        let mut light = vec![[0.0; 3]; width * height];
        self.ground(scene, &mut light);
        for thing in &scene.things {
            self.thing(scene, thing, &mut light);
        }
        let rgb = expose(scene, &light);
        Photo { width: scene.width, height: scene.height, rgb }
    }

    fn ground(&self, scene: &Scene, light: &mut [Rgb]) {
        let [coarse, fine] = scene.scales.map(|scale| SIDE as f32 / 4.0 / scale);
        let [a, b] = scene.offsets.map(|offset| offset.map(|part| part * SIDE as f32));
        let ([hx, hy], level) = scene.horizon;
        let (across_x, across_y) = (2.0 * hx / scene.width as f32, 2.0 * hy / scene.height as f32);
        for (y, row) in light.chunks_exact_mut(scene.width as usize).enumerate() {
            let y = y as f32;
            let across_row = y * across_y - hx - hy - level;
            let (broad_row, grain_row) = (self.row(y * coarse + a[1]), self.row(y * fine + b[1]));
            for (x, pixel) in row.iter_mut().enumerate() {
                let x = x as f32;
                let broad = broad_row.at(x * coarse + a[0]);
                let grain = grain_row.at(x * fine + b[0]);
                let beyond = smooth((0.5 + 6.0 * (x * across_x + across_row + 0.15 * broad)).clamp(0.0, 1.0));
                let mixed = smooth((0.5 + 0.9 * broad).clamp(0.0, 1.0));
                // Beyond the horizon it is smooth, like sky and walls; on this side it has grain, like grass and stone.
                let shade = 1.0 + scene.grain * grain * (1.0 - 0.75 * beyond) + 0.12 * broad;
                for (channel, value) in pixel.iter_mut().enumerate() {
                    let near = mix(scene.ground[0][channel], scene.ground[1][channel], mixed);
                    *value = mix(near, scene.ground[2][channel], beyond) * shade;
                }
            }
        }
    }

    fn thing(&self, scene: &Scene, thing: &SceneObject, light: &mut [Rgb]) {
        let per_pixel = 1.0 / thing.radius;
        let ([sx, sy], [ax, ay]) = (scene.light.map(|part| part * 0.4), thing.axis);
        let local = |x: f32, y: f32| -> Vector { [x * ax + y * ay, y * ax - x * ay] };
        let covered = Ramp { slope: thing.radius * 0.7, origin: thing.shape.distance([0.0, 0.0]) };
        let shadow = Ramp { slope: 3.0, ..covered };
        // As far as the shadow falls.
        let far = REACH + 0.35;
        let range = |centre: f32, end: u32| {
            let edge = |at: f32| at.clamp(0.0, end as f32) as usize;
            edge(centre - far * thing.radius)..edge(centre + far * thing.radius)
        };
        for row in range(thing.centre[1], scene.height) {
            let y = (row as f32 - thing.centre[1]) * per_pixel;
            let grain_row = self.row(row as f32 * 1.7);
            for column in range(thing.centre[0], scene.width) {
                let x = (column as f32 - thing.centre[0]) * per_pixel;
                if x * x + y * y > far * far {
                    continue;
                }
                let pixel = &mut light[row * scene.width as usize + column];
                let point = local(x, y);
                let covered = covered.at([x, y], || thing.shape.distance(point) * thing.radius * 0.7);
                if covered < 1.0 {
                    let (x, y) = (x + sx, y + sy);
                    let shadow = shadow.at([x, y], || 3.0 * thing.shape.distance(local(x, y)));
                    *pixel = pixel.map(|value| value * (1.0 - 0.5 * shadow));
                }
                if covered > 0.0 {
                    let grain = grain_row.at(column as f32 * 1.7 + thing.radius);
                    let shade = 1.0 + scene.light[0] * x + scene.light[1] * y + 0.3 * scene.grain * grain;
                    let second = thing.surface.second(point, thing.fine);
                    for (channel, value) in pixel.iter_mut().enumerate() {
                        let own = mix(thing.first[channel], thing.second[channel], second) * shade;
                        *value = mix(*value, own, covered);
                    }
                }
            }
        }
    }

    /// The tile along a line; no coordinate is negative.
    fn row(&self, y: f32) -> Row<'_> {
        let row = y as u32;
        let line = |row: u32| &self.tile[row as usize & (SIDE - 1)];
        Row { above: line(row), below: line(row + 1), part: y - row as f32 }
    }
}

/// From 1 inside an outline to 0 outside of it, as the distance falls and rises.
#[derive(Clone, Copy)]
struct Ramp {
    slope: f32,
    /// The distance at the origin.
    origin: f32,
}

impl Ramp {
    /// At a point, with the distance times the slope. No distance changes faster than the point moves, and that alone often says it.
    fn at(self, [x, y]: Vector, steep: impl FnOnce() -> f32) -> f32 {
        let (away, end) = ((x * x + y * y).sqrt(), 0.5 / self.slope + 1e-3);
        if self.origin + away < -end {
            1.0
        } else if away - REACH > end {
            0.0
        } else {
            (0.5 - steep()).clamp(0.0, 1.0)
        }
    }
}

/// Two lines of the tile, and how far it is from the first to the second.
struct Row<'a> {
    above: &'a [f32; SIDE],
    below: &'a [f32; SIDE],
    part: f32,
}

impl Row<'_> {
    /// Between the four nearest points.
    fn at(&self, x: f32) -> f32 {
        let column = x as u32;
        let part = x - column as f32;
        let (left, right) = (column as usize & (SIDE - 1), (column + 1) as usize & (SIDE - 1));
        mix(mix(self.above[left], self.above[right], part), mix(self.below[left], self.below[right], part), self.part)
    }
}

/// The lens darkens the corners, the sensor adds noise, the camera chooses exposure and white.
fn expose(scene: &Scene, light: &[Rgb]) -> Vec<u8> {
    let (across, down) = (1.0 / scene.width as f32, 1.0 / scene.height as f32);
    let mut rgb = Vec::with_capacity(light.len() * 3);
    let mut counter = scene.film;
    for (y, row) in light.chunks_exact(scene.width as usize).enumerate() {
        let y = y as f32 * down - 0.5;
        for (x, pixel) in row.iter().enumerate() {
            let x = x as f32 * across - 0.5;
            let corner = 1.0 - 0.5 * (x * x + y * y);
            counter = counter.wrapping_add(1);
            let noise = bits(counter);
            let channels = [0, 1, 2].map(|channel| {
                let value = pixel[channel] * scene.exposure[channel] * corner;
                // Two uniform numbers make a triangle, near enough to a bell.
                let pair = (noise >> (channel * 20)) as u32;
                let random = ((pair & 0x3FF) + (pair >> 10 & 0x3FF)) as f32 * (1.0 / 1023.0) - 1.0;
                ((value + random * scene.noise * (0.5 + value)) * 255.0 + 0.5) as u8
            });
            rgb.extend_from_slice(&channels);
        }
    }
    rgb
}

fn mix(a: f32, b: f32, part: f32) -> f32 {
    a + (b - a) * part
}

fn smooth(x: f32) -> f32 {
    x * x * (3.0 - 2.0 * x)
}

/// Between −1 and 1, fixed for each point.
fn lattice(point: u64) -> f32 {
    (bits(point) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// The finaliser of SplitMix64: well-mixed bits of a counter.
fn bits(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
