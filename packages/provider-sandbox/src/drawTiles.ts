import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import type { IndexedImage } from "./encodePng.ts"
import { FIGURES, FULL, TILE, tileShape } from "./tileShapes.ts"

type Color = readonly [red: number, green: number, blue: number]

const SIZE = 1024
const ACROSS = SIZE / TILE
const GROUT_PIXELS = 2
const grout: Color = [43, 36, 34]

/** Palettes of matching glazes. */
const kilns: ReadonlyArray<ReadonlyArray<Color>> = [
  [
    [240, 227, 204],
    [201, 92, 54],
    [46, 74, 98],
    [226, 167, 76],
    [122, 150, 137],
  ],
  [
    [236, 229, 216],
    [30, 96, 110],
    [223, 120, 80],
    [244, 197, 120],
    [92, 58, 66],
  ],
  [
    [244, 233, 215],
    [158, 52, 45],
    [217, 146, 66],
    [63, 94, 76],
    [37, 45, 66],
  ],
  [
    [233, 222, 203],
    [83, 121, 148],
    [205, 129, 95],
    [52, 58, 76],
    [190, 190, 160],
  ],
  [
    [247, 236, 220],
    [112, 64, 92],
    [222, 137, 112],
    [240, 191, 136],
    [66, 108, 116],
  ],
]
/** Brightness factors: fired glazes vary slightly. */
const firings = [0.93, 1, 1.04]

/** Draws a wall of glazed tiles, 1024 × 1024 pixels, determined by the text alone. */
export const drawTiles = Effect.fnUntraced(function* (text: string) {
  const choices = choicesFrom(text)
  const glazes = pick(kilns, choices())
  const palette = makePalette()
  const rows = new Uint8Array(SIZE * (SIZE + 1))
  for (let tileRow = 0; tileRow < ACROSS; tileRow++) {
    for (let tileColumn = 0; tileColumn < ACROSS; tileColumn++) {
      const ground = choices() % glazes.length
      // Any color except the ground's, so that the figure is visible.
      const figure = (ground + 1 + (choices() % (glazes.length - 1))) % glazes.length
      const firing = pick(firings, choices())
      const inks = Uint8Array.from({ length: FULL + 1 }, (_, level) =>
        palette.indexOf(mix(pick(glazes, ground), pick(glazes, figure), level / FULL, firing)),
      )
      layTile(rows, tileRow, tileColumn, {
        shape: tileShape(choices() % FIGURES),
        turns: choices() % 4,
        inks,
        groutInk: palette.indexOf(grout),
      })
      // The whole wall takes a few milliseconds, the first one longer, so this yields after each tile.
      yield* Effect.yieldNow
    }
  }
  const image: IndexedImage = { width: SIZE, height: SIZE, palette: palette.bytes(), rows }
  return image
})

/** Returns a generator of small numbers determined by the text. */
const choicesFrom = (text: string): (() => number) => {
  let block = createHash("sha512").update(text).digest()
  let at = 0
  return () => {
    if (at === block.length) {
      block = createHash("sha512").update(block).digest()
      at = 0
    }
    return block[at++] ?? 0
  }
}

const pick = <A>(items: ReadonlyArray<A>, choice: number): A => items[choice % items.length] as A

const mix = (ground: Color, figure: Color, share: number, firing: number): Color => {
  const channel = (i: 0 | 1 | 2): number =>
    Math.min(255, Math.round((ground[i] + (figure[i] - ground[i]) * share) * firing))
  return [channel(0), channel(1), channel(2)]
}

/** Collects colors in order of first use. Five glazes, three firings and soft edges make at most 196. */
const makePalette = () => {
  const indices = new Map<string, number>()
  const channels: Array<number> = []
  return {
    indexOf: (color: Color): number => {
      const name = color.join()
      const known = indices.get(name)
      if (known !== undefined) return known
      const index = indices.size
      indices.set(name, index)
      channels.push(...color)
      return index
    },
    bytes: (): Uint8Array => Uint8Array.from(channels),
  }
}

interface Tile {
  readonly shape: Uint8Array
  /** Number of quarter turns. */
  readonly turns: number
  /** Palette index by coverage. */
  readonly inks: Uint8Array
  readonly groutInk: number
}

const layTile = (rows: Uint8Array, tileRow: number, tileColumn: number, tile: Tile): void => {
  const last = TILE - 1
  for (let y = 0; y < TILE; y++) {
    const start = (tileRow * TILE + y) * (SIZE + 1) + 1 + tileColumn * TILE
    const inGroutRow = y < GROUT_PIXELS || y > last - GROUT_PIXELS
    for (let x = 0; x < TILE; x++) {
      const inGrout = inGroutRow || x < GROUT_PIXELS || x > last - GROUT_PIXELS
      const coverage = tile.shape[turned(tile.turns, x, y, last)] ?? 0
      rows[start + x] = inGrout ? tile.groutInk : (tile.inks[coverage] ?? 0)
    }
  }
}

const turned = (turns: number, x: number, y: number, last: number): number => {
  switch (turns) {
    case 0:
      return y * TILE + x
    case 1:
      return x * TILE + (last - y)
    case 2:
      return (last - y) * TILE + (last - x)
    default:
      return (last - x) * TILE + y
  }
}
