/*
 * The Huffman codebooks of AAC (ISO/IEC 14496-3, 4.A.1) and its scale factor bands (4.5.4), as far as the length of a frame depends
 * on them. In every book, codes of one length are consecutive numbers and begin where the shorter ones end, so the number of codes
 * by length defines them all.
 */

/** A codebook as a table that is indexed by the next bits of the stream. */
export interface Book {
  /** Number of values that a code stands for. */
  readonly values: number
  /** 32 minus the bits of the longest code, which index the table. */
  readonly shift: number
  /** Bits of the code and of the signs after it; plus 32 for each escape sequence after them. */
  readonly lengths: Uint8Array
}

/**
 * By codebook: values per code, the number of codes by length from 1 bit on, and what follows the codes, in their order: a sign bit
 * for each nonzero value of the unsigned books, and an escape sequence for each value 16 of the last one, which adds 3 here.
 */
const definitions: ReadonlyArray<readonly [values: 2 | 4, codes: ReadonlyArray<number>, following: string]> = [
  [4, [1, 0, 0, 0, 8, 0, 24, 0, 24, 8, 16], ""],
  [4, [0, 0, 1, 1, 7, 24, 15, 19, 14], ""],
  [
    4,
    [1, 0, 0, 4, 2, 6, 3, 5, 15, 15, 8, 9, 3, 3, 5, 2],
    "011112222232343311223232331221224334323244332333223243344233333344442233434443233",
  ],
  [
    4,
    [0, 0, 0, 10, 6, 0, 9, 21, 8, 14, 11, 2],
    "433331202222121144443333333333332222222222221111444444333333333433344422222243333",
  ],
  [2, [1, 0, 0, 4, 4, 0, 4, 12, 12, 12, 18, 10, 4], ""],
  [2, [0, 0, 0, 9, 0, 16, 13, 8, 23, 8, 4], ""],
  [2, [1, 0, 2, 1, 0, 4, 5, 10, 14, 15, 8, 4], "0112221122211222222221122212122222222211222222222222112222222222"],
  [2, [0, 0, 1, 5, 7, 10, 14, 15, 8, 4], "2212120112222222221122222222221212222222121222222222221212222112"],
  [
    2,
    [1, 0, 2, 1, 0, 4, 3, 8, 11, 20, 31, 38, 32, 14, 4],
    "01122211222112222222211222222212122222222122222222122212222122221122222222222221222122222222222222222222122122" +
      "22222122222222222222212212222122222222222222222222222222222",
  ],
  [
    2,
    [0, 0, 0, 3, 8, 14, 17, 25, 31, 41, 22, 8],
    "22221122222112222022112222222222221212222222222221212222222222222222221222221222222222222222221212222222122222" +
      "21222222222222222221212122222222222222212122212221222222122",
  ],
  [
    2,
    [0, 0, 0, 2, 6, 7, 16, 59, 55, 95, 43, 6],
    "02811222222121222222211222222222222222555552512152555522222552255522525552522552221552222125522525222222252212" +
      "22222122222222222222122222222222422222242122222222222222222222222222222212222222222222222221222222222222222222" +
      "222222222112222222222222222222222222212212122212222211222212212112112",
  ],
]

const bookOf = (values: number, codes: ReadonlyArray<number>, following: string): Book => {
  const longest = codes.length
  const lengths = new Uint8Array(2 ** longest)
  let at = 0
  let code = 0
  codes.forEach((count, index) => {
    for (let left = count; left > 0; left--, code++) {
      const follows = Number(following[code] ?? 0)
      const entry = index + 1 + (values === 2 ? (follows % 3) + Math.floor(follows / 3) * 32 : follows)
      lengths.fill(entry, at, (at += 2 ** (longest - index - 1)))
    }
  })
  return { values, shift: 32 - longest, lengths }
}

/** The spectral codebooks, by number minus 1. */
export const spectralBooks: ReadonlyArray<Book> = definitions.map((definition) => bookOf(...definition))

export const scaleFactorBook: Book = bookOf(1, [1, 0, 1, 3, 2, 4, 3, 5, 4, 6, 6, 6, 5, 8, 4, 7, 3, 7, 46], "")

const widths = (digits: string): ReadonlyArray<number> => [...digits].map((digit) => Number.parseInt(digit, 36) * 4)

// Widths of the scale factor bands of long and of short windows at 1024 samples per frame, divided by 4, in base 36.
const longBands = [
  "11111111111111222223333344679bggggggggggg",
  "11111111111111222233344456679aaaaaaaaaaaaaaaaaa",
  "111111111122222223333445566778888888888888888888o",
  "111111111122222223333445566778888888888888888888888",
  "1111111111122222222223333444556677899abcddggggg",
  "222222222223333333334444555667789aabcdefggg",
  "33333333333334444444555566677899abcdefgk",
].map(widths)
const shortBands = ["111111222479", "11111222333444", "111111122233445", "111111112233455", "111111122223455"].map(
  widths,
)

/** Sets of long and short bands, and the bands of the Main profile's prediction, by the index of the sample rate. */
const bandsByRate: ReadonlyArray<readonly [long: number, short: number, predicted: number]> = [
  [0, 0, 33],
  [0, 0, 33],
  [1, 0, 38],
  [2, 1, 40],
  [2, 1, 40],
  [3, 1, 40],
  [4, 2, 41],
  [4, 2, 41],
  [5, 3, 37],
  [5, 3, 37],
  [5, 3, 37],
  [6, 4, 34],
  [6, 4, 34],
]

/** The scale factor bands of a stream. */
export interface Bands {
  /** Widths of the bands of long and of short windows. */
  readonly long: ReadonlyArray<number>
  readonly short: ReadonlyArray<number>
  /** Number of bands that the prediction of the Main profile covers. */
  readonly predicted: number
}

/** Returns the bands at a sample rate, given by its index; shorter frames have the same bands, cut off at their end. */
export const bandsOf = (rateIndex: number, frameSamples: number): Bands => {
  const [long, short, predicted] = bandsByRate[rateIndex] ?? [0, 0, 0]
  return {
    long: upTo(frameSamples, longBands[long] ?? []),
    short: upTo(frameSamples / 8, shortBands[short] ?? []),
    predicted,
  }
}

const upTo = (limit: number, all: ReadonlyArray<number>): ReadonlyArray<number> => {
  const bands: Array<number> = []
  let left = limit
  for (const width of all) {
    if (left > 0) bands.push(Math.min(width, left))
    left -= width
  }
  return bands
}
