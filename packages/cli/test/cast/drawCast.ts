// Draws a recorded terminal as an SVG that plays by itself: text and CSS, no script.
import type { Frame } from "./record.ts"

const [lineHeight, characterWidth, margin, barHeight] = [19, 7.83, 16, 30]
/** How long the last screen stays. */
const restMs = 5_000
/** Redraws that follow each other faster than the eye are one. */
const shortestMs = 80

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

/** A line that does not change while it is shown. */
interface Piece {
  readonly row: number
  readonly text: string
  readonly from: number
  to: number
}

/** Keeps the last of the frames that follow each other too fast. */
const visible = (frames: ReadonlyArray<Frame>): ReadonlyArray<Frame> =>
  frames
    .filter(({ at }, n) => (frames[n + 1]?.at ?? Infinity) - at >= 1)
    .reduce<Array<Frame>>((kept, frame) => {
      const last = kept.at(-1)
      const isTyped = last !== undefined && frame.at - last.at < shortestMs && frame.lines.length === last.lines.length
      if (isTyped && kept.length > 1) kept.pop()
      kept.push(isTyped && last !== undefined ? { ...frame, at: last.at } : frame)
      return kept
    }, [])

const piecesOf = (frames: ReadonlyArray<Frame>, endMs: number): ReadonlyArray<Piece> => {
  const pieces: Array<Piece> = []
  const open = new Map<number, Piece>()
  for (const { at, lines } of frames)
    for (let row = 0; row < Math.max(lines.length, open.size); row += 1) {
      const text = lines[row] ?? ""
      const before = open.get(row)
      if (before?.text === text) continue
      if (before !== undefined) before.to = at
      const piece = { row, text, from: at, to: endMs }
      open.set(row, piece)
      if (text !== "") pieces.push(piece)
    }
  return pieces.filter(({ from, to }) => to > from)
}

const tone = (text: string): string => {
  if (text.startsWith("$ ")) return "c"
  return /^(?:No --url|sent |wrote )/.test(text) ? "f" : /^job_\w+ done/.test(text) ? "g" : ""
}

export const drawCast = (given: ReadonlyArray<Frame>, columns: number, title: string): string => {
  const frames = visible(given)
  const endMs = Math.ceil(frames.at(-1)?.at ?? 0) + restMs
  const pieces = piecesOf(frames, endMs)
  const rows = Math.max(...frames.map(({ lines }) => lines.length))
  const [width, height] = [Math.ceil(columns * characterWidth + 2 * margin), barHeight + rows * lineHeight + 2 * margin]
  const percent = (ms: number): string => `${Number(((ms / endMs) * 100).toFixed(2))}%`
  const names = new Map<string, string>()
  const rules: Array<string> = []
  /** Pieces that come and go together share a rule. The last screen is what one sees without animation. */
  const nameOf = ({ from, to }: Piece): string => {
    const key = `${percent(from)} ${percent(to)}`
    const known = names.get(key)
    if (known !== undefined) return known
    const name = `k${names.size.toString(36)}`
    names.set(key, name)
    const isLast = to >= endMs
    const end = isLast ? "" : `${percent(to)}{opacity:0}`
    rules.push(`@keyframes ${name}{0%{opacity:0}${percent(from)}{opacity:1}${end}}`)
    rules.push(`.${name}{${isLast ? "" : "opacity:0;"}animation:${name} ${endMs / 1_000}s step-end infinite}`)
    return name
  }
  const texts = pieces.map((piece) => {
    const y = barHeight + margin + piece.row * lineHeight + 13
    return `<text class="${`${tone(piece.text)} ${nameOf(piece)}`.trim()}" y="${y}">${escaped(piece.text)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img"><title>${escaped(title)}</title><style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d7d9de;white-space:pre}.c{fill:#fff;font-weight:600}.f{fill:#9aa0ab}.g{fill:#6fd08c}
${rules.join("\n")}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}</style><rect width="${width}" height="${height}" rx="10" fill="#17181c"/><g fill="#3a3d45"><circle cx="20" cy="17" r="5"/><circle cx="38" cy="17" r="5"/><circle cx="56" cy="17" r="5"/></g><g transform="translate(${margin} 0)">
${texts.join("\n")}
</g></svg>
`
}
