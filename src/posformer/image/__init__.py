"""Photos and scans: decoding, page clean-up, line splitting, resizing.

Modules:
    loading: decode files, streams and arrays to 8-bit images.
    cleanup: turn a photo into a binary image like those the model was trained on.
    contrast: separate ink from paper under uneven light.
    ruling: remove printed lines from ruled and squared paper.
    lines: split an image that holds several formulas, one below the other.
    pen: measure and reduce the stroke width.
    sizing: crop and resize images to the resolution of a model.
"""
