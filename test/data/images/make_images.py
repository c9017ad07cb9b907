"""Makes a small folder of JPEG and PNG images of all kinds, and pixels.npz with
the pixels that Pillow reads from them.

    pip install pillow==13.0.0 numpy && python make_images.py

The pixels are computed: gradients, waves and noise.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parent
# Width and height of the model's input. Some images are smaller, others larger.
SIZE = (12, 9)


def picture(width, height, seed):
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 100 * np.sin((x * (c + 1) + y) / 5 + seed) for c in range(3)]
    noise = random.uniform(-25, 25, (height, width, 3))
    pixels = np.stack(waves, -1) + noise
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def write_images():
    ant, bee = HERE / "folder" / "ant", HERE / "folder" / "bee"
    for folder in (ant, bee / "more"):
        folder.mkdir(parents=True, exist_ok=True)
    picture(23, 17, 1).save(ant / "baseline.jpg", quality=80)
    picture(40, 31, 2).save(ant / "progressive.JPEG", quality=60, progressive=True)
    picture(12, 30, 3).convert("L").save(ant / "grey.jpg")
    picture(5, 4, 4).save(ant / "small.png")
    picture(33, 20, 5).convert("P").save(bee / "palette.png")
    alpha = picture(20, 20, 6)
    alpha.putalpha(picture(20, 20, 7).convert("L"))
    alpha.save(bee / "alpha.png")
    picture(12, 9, 8).convert("L").save(bee / "more" / "grey.png")
    picture(16, 16, 9).convert("1").save(bee / "more" / "one-bit.png")


def main():
    write_images()
    pixels = {"rgb": [], "grey": [], "target": []}
    folders = sorted(p for p in (HERE / "folder").iterdir())
    for label, folder in enumerate(folders):
        files = (p for p in folder.rglob("*") if p.is_file())
        for path in sorted(files, key=str):
            image = Image.open(path).convert("RGB")
            grey = image.convert("L")
            rgb, grey = (
                np.asarray(i.resize(SIZE, Image.Resampling.BILINEAR))
                for i in (image, grey)
            )
            pixels["rgb"].append(np.moveaxis(rgb, -1, 0))
            pixels["grey"].append(grey[None])
            pixels["target"].append(label)
    np.savez_compressed(
        HERE / "pixels.npz", **{k: np.stack(v) for k, v in pixels.items()}
    )


if __name__ == "__main__":
    main()
