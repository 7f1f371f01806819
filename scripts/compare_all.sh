#!/bin/sh
# Compare all models at an equal CPU budget, on the frozen encoder of the bundled model.
#
#     scripts/compare_all.sh MINUTES [OPTION or KEY=VALUE]...
#
# Run it in the folder of the repository, with data/crohme.zip and data/crohme_inkml.zip. Started again,
# it continues where it stopped. MODELS="dwap comer" restricts the models; the table is in runs/compare-MINUTES.
set -eu
minutes=${1:?usage: scripts/compare_all.sh MINUTES [OPTION or KEY=VALUE]...}
shift
models=${MODELS:-$(cd configs && ls *.yaml | sed 's/\.yaml$//' | grep -vxE 'crohme|default|frozen|multiline')}
configs=$(for name in $models; do echo "configs/$name.yaml"; done)
# shellcheck disable=SC2086  # one argument per config
exec ${POSFORMER:-posformer} compare $configs \
    data.images=data/crohme.zip data.ink=data/crohme_inkml.zip data.source=ink data.scale_range=null data.validation_limit=8 \
    frozen='{encoder: default, variants: 0}' batch='{max_pixels: 260000, max_images: 8, workers: 0}' batch.masking=0 \
    optimizer='{kind: adamw, learning_rate: 0.001, weight_decay: 0.02, averaging: null, decay: cosine, warmup: 0.05, clip: 2.0}' \
    loss.attention=0.5 validate_every=1000 progress_images=0 accelerator=cpu threads=1 \
    --minutes "$minutes" --greedy --output "runs/compare-$minutes" "$@"
