// Draws the Mermaid diagrams of the guides as SVG when the pages are compiled, so that a page needs no library for them. It knows
// what the guides use: sequence diagrams, and flowcharts from left to right. Anything else fails the build.

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/** Width of a text in the page's font at 13 px, a little too wide for safety. */
const widthOf = (text: string): number => Math.ceil(text.length * 7.1)

const margin = 8
const boxHeight = 32

const arrowHead = `<defs><marker id="NAME-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>`

const drawing = (name: string, width: number, height: number, says: string, parts: ReadonlyArray<string>): string =>
  `<div class="scroll" tabindex="0"><svg class="diagram" role="img" aria-label="${escaped(says)}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${(arrowHead + parts.join("")).replaceAll("NAME", name)}</svg></div>`

const box = (centerX: number, y: number, width: number, label: string, isStore = false): string =>
  `<rect class="node" x="${centerX - width / 2}" y="${y}" width="${width}" height="${boxHeight}" rx="${isStore ? boxHeight / 2 : 6}"/><text text-anchor="middle" x="${centerX}" y="${y + 21}">${escaped(label)}</text>`

const unknown = (line: string): Error => new Error(`the pages cannot draw this line of a diagram: ${line}`)

interface Message {
  readonly from: string
  readonly to: string
  readonly isReply: boolean
  readonly text: string
}

const messageHeight = 36

const drawSequence = (name: string, lines: ReadonlyArray<string>): string => {
  const actors: Array<{ readonly id: string; readonly label: string }> = []
  const messages: Array<Message> = []
  for (const line of lines) {
    const [, id, label] = /^participant (\w+) as (.+)$/.exec(line) ?? []
    const [, from, arrow, to, text] = /^(\w+)(-{1,2}>>)(\w+): (.+)$/.exec(line) ?? []
    if (id !== undefined && label !== undefined) actors.push({ id, label })
    else if (from !== undefined && to !== undefined && text !== undefined)
      messages.push({ from, to, isReply: arrow === "-->>", text })
    else throw unknown(line)
  }
  const indexOf = (id: string): number => actors.findIndex((actor) => actor.id === id)
  // Neighbors stand as far apart as their longest message needs.
  const gaps = actors
    .slice(1)
    .map((_, n) =>
      Math.max(
        140,
        ...messages
          .filter(
            ({ from, to }) => Math.min(indexOf(from), indexOf(to)) === n && Math.abs(indexOf(from) - indexOf(to)) === 1,
          )
          .map(({ text }) => widthOf(text) + 24),
      ),
    )
  const widths = actors.map(({ label }) => widthOf(label) + 28)
  const left = margin + (widths[0] ?? 0) / 2
  const at = (n: number): number => left + gaps.slice(0, n).reduce((sum, gap) => sum + gap, 0)
  const height = margin * 2 + boxHeight + messages.length * messageHeight + 12
  const width = Math.ceil(at(actors.length - 1) + (widths.at(-1) ?? 0) / 2 + margin)
  const parts = actors.flatMap(({ label }, n) => [
    `<path class="life" d="M${at(n)} ${margin + boxHeight}V${height - margin}"/>`,
    box(at(n), margin, widths[n] ?? 0, label),
  ])
  const arrows = messages.map(({ from, isReply, text, to }, n) => {
    const [start, end] = [at(indexOf(from)), at(indexOf(to))]
    const y = margin + boxHeight + (n + 1) * messageHeight
    return `<text text-anchor="middle" x="${(start + end) / 2}" y="${y - 6}">${escaped(text)}</text><path class="edge${isReply ? " reply" : ""}" marker-end="url(#NAME-head)" d="M${start} ${y}H${end}"/>`
  })
  const labelOf = (id: string): string => actors[indexOf(id)]?.label ?? id
  const says = messages.map(({ from, text, to }) => `${labelOf(from)} to ${labelOf(to)}: ${text}`).join(". ")
  return drawing(name, width, height, says, [...parts, ...arrows])
}

interface Edge {
  readonly from: string
  readonly to: string
  readonly label: string
}

const rowHeight = 58
/** Where on its arrow a label stands: before arrows cross. */
const labelAt = 0.42

const drawFlow = (name: string, lines: ReadonlyArray<string>): string => {
  const nodes = new Map<string, { readonly label: string; readonly isStore: boolean }>()
  const edges: Array<Edge> = []
  const see = (written: string): string => {
    const [, id, label, store] = /^(\w+)(?:\["([^"]+)"\]|\[\("([^"]+)"\)\])?$/.exec(written) ?? []
    if (id === undefined) throw unknown(written)
    const named = label ?? store
    if (named !== undefined || !nodes.has(id)) nodes.set(id, { label: named ?? id, isStore: store !== undefined })
    return id
  }
  for (const line of lines) {
    const [, from, label, to] = /^(.+?) (?:-- (.+) )?-->\s*(.+)$/.exec(line) ?? []
    if (from === undefined || to === undefined) throw unknown(line)
    edges.push({ from: see(from), to: see(to), label: label ?? "" })
  }
  const ranks = new Map<string, number>()
  const rankOf = (id: string): number => {
    const known = ranks.get(id)
    if (known !== undefined) return known
    const before = edges.filter(({ to }) => to === id).map(({ from }) => rankOf(from) + 1)
    ranks.set(id, Math.max(0, ...before))
    return ranks.get(id) ?? 0
  }
  for (const id of nodes.keys()) rankOf(id)
  // A beginning stands right before what it leads to.
  for (const id of nodes.keys())
    if (!edges.some(({ to }) => to === id))
      ranks.set(id, Math.min(...edges.filter(({ from }) => from === id).map(({ to }) => (ranks.get(to) ?? 1) - 1)))
  const columns = [...Map.groupBy(nodes.keys(), (id) => ranks.get(id) ?? 0)].toSorted(([one], [other]) => one - other)
  const widthIn = (ids: ReadonlyArray<string>) => Math.max(...ids.map((id) => widthOf(nodes.get(id)?.label ?? "") + 28))
  const height = 2 * margin + Math.max(...columns.map(([, ids]) => ids.length)) * rowHeight
  const places = new Map<string, { readonly x: number; readonly y: number; readonly width: number }>()
  let x = margin
  for (const [n, [rank, ids]] of columns.entries()) {
    const width = widthIn(ids)
    for (const [row, id] of ids.entries())
      places.set(id, { x: x + width / 2, y: height / 2 + (row - (ids.length - 1) / 2) * rowHeight, width })
    const leaving = edges.filter(({ from }) => ranks.get(from) === rank)
    x += width + (n === columns.length - 1 ? margin : Math.max(70, ...leaving.map(({ label }) => widthOf(label) + 50)))
  }
  const paths = edges.map(({ from, label, to }) => {
    const [start, end] = [places.get(from), places.get(to)]
    if (start === undefined || end === undefined) throw unknown(`${from} --> ${to}`)
    const [x1, x2] = [start.x + start.width / 2, end.x - end.width / 2]
    const text =
      label === ""
        ? ""
        : `<text class="label" text-anchor="middle" x="${x1 + (x2 - x1) * labelAt}" y="${start.y + (end.y - start.y) * labelAt * labelAt - 6}">${escaped(label)}</text>`
    const bend = (x2 - x1) / 2
    return `<path class="edge" marker-end="url(#NAME-head)" d="M${x1} ${start.y}C${x1 + bend} ${start.y} ${x2 - bend} ${end.y} ${x2} ${end.y}"/>${text}`
  })
  const boxes = [...nodes].map(([id, { isStore, label }]) => {
    const place = places.get(id)
    return place === undefined ? "" : box(place.x, place.y - boxHeight / 2, place.width, label, isStore)
  })
  const labelOf = (id: string): string => nodes.get(id)?.label ?? id
  const says = edges.map(
    ({ from, label, to }) => `${labelOf(from)} ${label === "" ? "to" : `(${label}) to`} ${labelOf(to)}`,
  )
  return drawing(name, Math.ceil(x), height, says.join(". "), [...paths, ...boxes])
}

/** Draws a diagram. `name` is unique on its page. */
export const drawDiagram = (name: string, text: string): string => {
  const [kind = "", ...lines] = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
  if (kind === "sequenceDiagram") return drawSequence(name, lines)
  if (kind === "flowchart LR") return drawFlow(name, lines)
  throw unknown(kind)
}
