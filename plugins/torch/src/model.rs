//! The networks, in torchvision's structure, initialisation and names of weights, so that what is trained here can be loaded
//! there, and the other way round. Knows no data and no training.

mod densenet;
mod googlenet;
mod inception;
mod layers;
mod mobilenet;
mod resnet;
mod vgg;
mod vit;

use serde::Deserialize;
use tch::nn;
use tch::{Device, Kind, Tensor};

pub(crate) use layers::{Layer, Pass, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Model {
    Alexnet,
    Densenet121,
    Googlenet,
    InceptionV3,
    MobilenetV1,
    MobilenetV2,
    MobilenetV3Large,
    Resnet18,
    Resnet34,
    Resnet50,
    Vgg16,
    Vgg19,
    #[serde(rename = "vit_b_16")]
    VitB16,
}

/// The parameters of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) model: Model,
    pub(crate) classes: usize,
    /// Width and height of its images.
    pub(crate) size: u32,
    /// The part of the features that its classifiers do without in training; left out, torchvision's.
    pub(crate) dropout: Option<f64>,
}

impl Form {
    /// Builds the network with new weights, drawn from libtorch's generator.
    pub(crate) fn build(&self, path: &nn::Path<'_>) -> Layer {
        let classes = self.classes as i64;
        let dropout = |usual| self.dropout.unwrap_or(usual);
        match self.model {
            Model::Alexnet => vgg::alexnet(path, classes, dropout(0.5)),
            Model::Densenet121 => densenet::densenet(path, [6, 12, 24, 16], classes),
            Model::Googlenet => googlenet::googlenet(path, classes, dropout(0.2), dropout(0.7)),
            Model::InceptionV3 => inception::v3(path, classes, dropout(0.5)),
            Model::MobilenetV1 => mobilenet::v1(path, classes, dropout(0.001)),
            Model::MobilenetV2 => mobilenet::v2(path, classes, dropout(0.2)),
            Model::MobilenetV3Large => mobilenet::v3_large(path, classes, dropout(0.2)),
            Model::Resnet18 => resnet::basic(path, [2, 2, 2, 2], classes),
            Model::Resnet34 => resnet::basic(path, [3, 4, 6, 3], classes),
            Model::Resnet50 => resnet::bottleneck(path, [3, 4, 6, 3], classes),
            Model::Vgg16 => vgg::vgg(path, [2, 2, 3, 3, 3], classes, dropout(0.5)),
            Model::Vgg19 => vgg::vgg(path, [2, 2, 4, 4, 4], classes, dropout(0.5)),
            Model::VitB16 => vit::b16(path, i64::from(self.size), classes),
        }
    }

    /// Refuses images of a size that the network cannot take, in training or in inference.
    pub(crate) fn check_size(&self, training: bool) -> Result<(), String> {
        let Form { model, size, .. } = *self;
        let (name, least) = (model.name(), model.min_size(training));
        if size < least {
            let why = match model {
                Model::InceptionV3 if training => ", for its auxiliary head",
                _ => "",
            };
            return Err(format!(
                "images of {size}×{size} are too small for {name}, which takes {least}×{least} and more{why}"
            ));
        }
        if model == Model::VitB16 && i64::from(size) % vit::PATCH != 0 {
            let near = i64::from(size) / vit::PATCH * vit::PATCH;
            return Err(format!(
                "images of {size}×{size} cannot be cut into squares of {patch}×{patch}, as {name} does: take a `size` of {near} or {}",
                near + vit::PATCH,
                patch = vit::PATCH
            ));
        }
        Ok(())
    }

    /// The cost of the network, measured by building it and passing one image through it.
    pub(crate) fn cost(&self) -> Cost {
        let store = nn::VarStore::new(Device::Cpu);
        let network = self.build(&store.root());
        let (mut parameters, mut auxiliary) = (0, 0);
        for (name, tensor) in store.variables().iter().filter(|(_, tensor)| tensor.requires_grad()) {
            parameters += tensor.numel();
            auxiliary += if is_auxiliary(name) { tensor.numel() } else { 0 };
        }
        Cost { work: work(&network, self.size), parameters, auxiliary }
    }
}

/// The work of a network for one image, without training.
fn work(network: &Layer, size: u32) -> Work {
    let image = Tensor::zeros([1, 3, i64::from(size), i64::from(size)], (Kind::Float, Device::Cpu));
    let mut pass = Pass::default();
    let _logits = tch::no_grad(|| network(&image, &mut pass));
    pass.work()
}

fn is_auxiliary(name: &str) -> bool {
    ["aux1.", "aux2.", "AuxLogits."].iter().any(|head| name.starts_with(head))
}

/// The cost of a network for one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) work: Work,
    /// Numbers that training changes.
    pub(crate) parameters: usize,
    /// Parameters of auxiliary heads, which are used in training only.
    pub(crate) auxiliary: usize,
}

impl Model {
    /// Its name in workflows and in torchvision.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Model::Alexnet => "alexnet",
            Model::Densenet121 => "densenet121",
            Model::Googlenet => "googlenet",
            Model::InceptionV3 => "inception_v3",
            Model::MobilenetV1 => "mobilenet_v1",
            Model::MobilenetV2 => "mobilenet_v2",
            Model::MobilenetV3Large => "mobilenet_v3_large",
            Model::Resnet18 => "resnet18",
            Model::Resnet34 => "resnet34",
            Model::Resnet50 => "resnet50",
            Model::Vgg16 => "vgg16",
            Model::Vgg19 => "vgg19",
            Model::VitB16 => "vit_b_16",
        }
    }

    /// Prefixes of the classifier layers, which a training for other classes initialises again.
    fn heads(self) -> &'static [&'static str] {
        match self {
            Model::Alexnet | Model::Vgg16 | Model::Vgg19 => &["classifier.6."],
            Model::Densenet121 => &["classifier."],
            Model::Googlenet => &["fc.", "aux1.fc2.", "aux2.fc2."],
            Model::InceptionV3 => &["fc.", "AuxLogits.fc."],
            Model::MobilenetV1 | Model::MobilenetV2 => &["classifier.1."],
            Model::MobilenetV3Large => &["classifier.3."],
            Model::Resnet18 | Model::Resnet34 | Model::Resnet50 => &["fc."],
            Model::VitB16 => &["heads.head."],
        }
    }

    /// Whether a variable belongs to a layer that gives the classes.
    pub(crate) fn is_head(self, name: &str) -> bool {
        self.heads().iter().any(|head| name.starts_with(head))
    }

    /// The smallest images that leave something for its last layers.
    fn min_size(self, training: bool) -> u32 {
        match self {
            Model::Alexnet => 63,
            Model::Densenet121 => 29,
            Model::Googlenet => 15,
            Model::InceptionV3 if training => 299,
            Model::InceptionV3 => 75,
            Model::Vgg16 | Model::Vgg19 => 32,
            Model::VitB16 => 16,
            _ => 1,
        }
    }

    /// Images up to this size come to one value per channel before some normalisation: of one image alone its variance is not a
    /// number.
    pub(crate) fn one_value_up_to(self) -> u32 {
        match self {
            Model::Alexnet | Model::Vgg16 | Model::Vgg19 | Model::VitB16 => 0,
            Model::Densenet121 => 60,
            Model::Googlenet => 46,
            Model::InceptionV3 => 346,
            _ => 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Figures of torchvision 0.26: image size of the published weights, parameters, GMACs at that size, and the digest
    /// that `parity.py --names` prints. torchvision has no MobileNetV1; its figures are the paper's.
    const PUBLISHED: [(Model, u32, usize, f64, Option<u64>); 13] = [
        (Model::Alexnet, 224, 61_100_840, 0.714, Some(0x8aef_27c5_a301_d050)),
        (Model::Densenet121, 224, 7_978_856, 2.834, Some(0xfb86_7ca5_94e7_9589)),
        (Model::Googlenet, 224, 13_004_888, 1.498, Some(0x4bb5_6cdd_8102_6599)),
        (Model::InceptionV3, 299, 27_161_264, 5.713, Some(0x0806_5d98_5784_ce36)),
        (Model::MobilenetV1, 224, 4_231_976, 0.569, None),
        (Model::MobilenetV2, 224, 3_504_872, 0.301, Some(0xaf55_7b53_cb3d_00c9)),
        (Model::MobilenetV3Large, 224, 5_483_032, 0.217, Some(0xd5f7_c86b_eec2_5bb6)),
        (Model::Resnet18, 224, 11_689_512, 1.814, Some(0x18b0_56aa_6aa6_fea6)),
        (Model::Resnet34, 224, 21_797_672, 3.664, Some(0xd3f2_0fb1_a6eb_ec98)),
        (Model::Resnet50, 224, 25_557_032, 4.089, Some(0xd296_b015_caae_1553)),
        (Model::Vgg16, 224, 138_357_544, 15.47, Some(0xc289_28e3_9d00_7d16)),
        (Model::Vgg19, 224, 143_667_240, 19.632, Some(0x36d3_3bf2_95df_503e)),
        (Model::VitB16, 224, 86_567_656, 17.564, Some(0x6512_e108_ff55_8aa4)),
    ];

    /// Seven networks at 224×224: GMACs including normalisations and activations, and parameters in millions.
    const MEASURED_ELSEWHERE: [(Model, &str, &str); 7] = [
        (Model::Alexnet, "0.71", "61.1"),
        (Model::Vgg16, "15.5", "138.36"),
        (Model::Densenet121, "2.88", "7.98"),
        (Model::Resnet50, "4.12", "25.56"),
        (Model::Resnet18, "1.82", "11.69"),
        (Model::InceptionV3, "2.85", "27.16"),
        (Model::Googlenet, "1.51", "6.6"),
    ];

    fn form(model: Model, size: u32) -> Form {
        Form { model, classes: 1000, size, dropout: None }
    }

    fn fnv1a(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    /// With as many digits as the other figure.
    fn rounded(value: f64, like: &str) -> String {
        format!("{value:.*}", like.split_once('.').map_or(0, |(_, digits)| digits.len()))
    }

    /// One test, because the largest take a second to build.
    #[test]
    fn networks_are_those_that_were_published() {
        for (model, size, published, gmac, digest) in PUBLISHED {
            let store = nn::VarStore::new(Device::Cpu);
            let network = form(model, size).build(&store.root());
            let variables: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
            let count = |(_, tensor): (&String, &Tensor)| if tensor.requires_grad() { tensor.numel() } else { 0 };
            let parameters: usize = variables.iter().map(count).sum();
            assert_eq!(parameters, published, "{model:?}");
            let text: String = variables.iter().map(|(name, tensor)| format!("{name} {:?}\n", tensor.size())).collect();
            assert!(digest.is_none_or(|digest| fnv1a(&text) == digest), "{model:?} has other names or shapes:\n{text}");
            let counted = work(&network, size).macs as f64 / 1e9;
            assert!((counted - gmac).abs() < 0.0006, "{model:?}: {counted} and not {gmac}");

            let Some((_, gmac, millions)) = MEASURED_ELSEWHERE.iter().find(|(other, ..)| *other == model) else {
                continue;
            };
            let operations = work(&network, 224).operations() as f64 / 1e9;
            assert_eq!(rounded(operations, gmac), *gmac, "{model:?}: {operations}");
            // Inception's figure counts its auxiliary head, GoogLeNet's does not.
            let heads = variables.iter().filter(|(name, _)| model == Model::Googlenet && is_auxiliary(name));
            let counted = parameters - heads.map(count).sum::<usize>();
            assert_eq!(rounded(counted as f64 / 1e6, millions), *millions, "{model:?}");
        }
    }

    #[test]
    fn layers_are_those_in_the_names_of_networks() {
        assert_eq!(form(Model::Densenet121, 64).cost().work.layers, 121);
        // Beside the 18 of its name a convolution in each of three shortcuts.
        let cost = form(Model::Resnet18, 64).cost();
        assert_eq!((cost.work.layers, cost.parameters, cost.auxiliary), (21, 11_689_512, 0));
    }

    #[test]
    fn the_smallest_images_are_large_enough_and_smaller_ones_are_refused() {
        for model in [Model::Densenet121, Model::Googlenet, Model::InceptionV3, Model::Resnet18] {
            let least = model.min_size(false);
            form(model, least).cost();
            let too_small = std::panic::catch_unwind(|| form(model, least - 1).cost());
            assert!(too_small.is_err() || least == 1, "{model:?} at {}", least - 1);
        }
        let refused = |model, size| form(model, size).check_size(true).unwrap_err();
        insta::assert_snapshot!(refused(Model::InceptionV3, 224), @"images of 224×224 are too small for inception_v3, which takes 299×299 and more, for its auxiliary head");
        insta::assert_snapshot!(refused(Model::Alexnet, 32), @"images of 32×32 are too small for alexnet, which takes 63×63 and more");
        insta::assert_snapshot!(refused(Model::VitB16, 100), @"images of 100×100 cannot be cut into squares of 16×16, as vit_b_16 does: take a `size` of 96 or 112");
        assert_eq!(form(Model::InceptionV3, 75).check_size(false), Ok(()));
    }

    #[test]
    fn auxiliary_heads_answer_in_training_alone() {
        for (model, size, heads) in [(Model::Googlenet, 32, 2), (Model::InceptionV3, 299, 1)] {
            let store = nn::VarStore::new(Device::Cpu);
            let network = Form { classes: 3, ..form(model, size) }.build(&store.root());
            let side = i64::from(size);
            let images = Tensor::zeros([2, 3, side, side], (Kind::Float, Device::Cpu));
            for (mut pass, heads) in [(Pass::training(), heads), (Pass::default(), 0)] {
                assert_eq!(tch::no_grad(|| network(&images, &mut pass)).size(), [2, 3], "{model:?}");
                assert_eq!(pass.auxiliary.len(), heads, "{model:?}");
            }
            let of_classes = |name: &str| model.is_head(name);
            assert!(store.variables().iter().all(|(name, value)| of_classes(name) == (value.size()[0] == 3)));
        }
    }
}
