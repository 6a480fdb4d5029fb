//! The networks, in torchvision's structure, initialisation and names of weights, so that what is trained here can be loaded
//! there. Knows no data and no training.

mod layers;
mod mobilenet;
mod resnet;

use serde::Deserialize;
use tch::nn::{self, ModuleT};

/// A network that is trained from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Model {
    MobilenetV2,
    MobilenetV3Large,
    Resnet18,
    Resnet34,
    Resnet50,
}

impl Model {
    /// Builds the network with new weights, drawn from libtorch's generator. `dropout` is the part of the features that the
    /// MobileNets' classifier does without in training.
    pub(crate) fn build(self, path: &nn::Path<'_>, classes: i64, dropout: f64) -> Box<dyn ModuleT> {
        match self {
            Model::MobilenetV2 => Box::new(mobilenet::v2(path, classes, dropout)),
            Model::MobilenetV3Large => Box::new(mobilenet::v3_large(path, classes, dropout)),
            Model::Resnet18 => Box::new(resnet::basic(path, [2, 2, 2, 2], classes)),
            Model::Resnet34 => Box::new(resnet::basic(path, [3, 4, 6, 3], classes)),
            Model::Resnet50 => Box::new(resnet::bottleneck(path, [3, 4, 6, 3], classes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;

    #[test]
    fn as_many_parameters_as_torchvision_publishes() {
        let published = [
            (Model::MobilenetV2, 3_504_872),
            (Model::MobilenetV3Large, 5_483_032),
            (Model::Resnet18, 11_689_512),
            (Model::Resnet34, 21_797_672),
            (Model::Resnet50, 25_557_032),
        ];
        for (model, parameters) in published {
            let store = nn::VarStore::new(Device::Cpu);
            let network = model.build(&store.root(), 1000, 0.2);
            let counted: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
            assert_eq!(counted, parameters, "{model:?}");
            let logits =
                tch::no_grad(|| network.forward_t(&Tensor::zeros([1, 3, 32, 32], (Kind::Float, Device::Cpu)), false));
            assert_eq!(logits.size(), [1, 1000], "{model:?}");
        }
    }

    #[test]
    fn weights_have_torchvisions_names() {
        let names = |model: Model| {
            let store = nn::VarStore::new(Device::Cpu);
            model.build(&store.root(), 10, 0.2);
            store.variables().into_keys().collect::<std::collections::BTreeSet<_>>()
        };
        let v2 = names(Model::MobilenetV2);
        for name in [
            "features.0.0.weight",
            "features.1.conv.1.weight",
            "features.2.conv.1.0.weight",
            "features.2.conv.3.running_var",
            "features.18.1.bias",
            "classifier.1.weight",
        ] {
            assert!(v2.contains(name), "{name}");
        }
        let v3 = names(Model::MobilenetV3Large);
        for name in [
            "features.1.block.0.0.weight",
            "features.4.block.2.fc1.bias",
            "features.4.block.3.1.weight",
            "features.16.0.weight",
            "classifier.0.weight",
            "classifier.3.bias",
        ] {
            assert!(v3.contains(name), "{name}");
        }
        let resnet = names(Model::Resnet50);
        for name in
            ["conv1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight", "layer3.5.conv3.weight", "fc.bias"]
        {
            assert!(resnet.contains(name), "{name}");
        }
    }
}
