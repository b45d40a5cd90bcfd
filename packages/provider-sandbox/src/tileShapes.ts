/** Edge of a tile in pixels. */
export const TILE = 128

/** Full coverage. A tile stores for each pixel how much of it the figure covers, 0 to `FULL`; soft edges are in between. */
export const FULL = 7

/** Returns the distance of a point to the figure in pixels, negative inside. Coordinates start at the tile's upper left corner. */
type Distance = (x: number, y: number) => number

const disc =
  (centerX: number, centerY: number, radius: number): Distance =>
  (x, y) =>
    Math.hypot(x - centerX, y - centerY) - radius
const both =
  (a: Distance, b: Distance): Distance =>
  (x, y) =>
    Math.max(a(x, y), b(x, y))
const either =
  (a: Distance, b: Distance): Distance =>
  (x, y) =>
    Math.min(a(x, y), b(x, y))
const ring =
  (shape: Distance, halfWidth: number): Distance =>
  (x, y) =>
    Math.abs(shape(x, y)) - halfWidth

const quarter = disc(0, 0, TILE)
const leaf = both(disc(0, 0, TILE), disc(TILE, TILE, TILE))
const halfDisc = disc(TILE / 2, 0, TILE / 2)
const pearl = disc(TILE / 2, TILE / 2, TILE * 0.3)
const wedge: Distance = (x, y) => (x + y - TILE) / Math.SQRT2
const arcs = either(ring(disc(0, 0, TILE * 0.82), TILE * 0.09), disc(0, 0, TILE * 0.46))
const bowTie = either(disc(0, 0, TILE / 2), disc(TILE, TILE, TILE / 2))
const bullsEye = either(ring(disc(TILE / 2, TILE / 2, TILE * 0.36), TILE * 0.07), disc(TILE / 2, TILE / 2, TILE * 0.14))

const figures: ReadonlyArray<Distance> = [quarter, leaf, halfDisc, pearl, wedge, arcs, bowTie, bullsEye]

/** Number of figures. */
export const FIGURES = figures.length

const drawn: Array<Uint8Array | undefined> = figures.map(() => undefined)

/** Returns the coverage of a figure, row by row; cached. */
export const tileShape = (figure: number): Uint8Array => {
  const index = figure % FIGURES
  const distance = figures[index] ?? quarter
  return (drawn[index] ??= Uint8Array.from({ length: TILE * TILE }, (_, i) => {
    const outside = distance((i % TILE) + 0.5, Math.floor(i / TILE) + 0.5)
    return Math.round(Math.min(1, Math.max(0, 0.5 - outside)) * FULL)
  }))
}
