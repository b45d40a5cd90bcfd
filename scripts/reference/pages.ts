import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { groups } from "./declarations.ts"
import { repository } from "../publish/publicPackages.ts"
import type { DoorOfReference } from "./doors.ts"
import type { Exported, ReadDoor } from "./readDoors.ts"

/** A name with a longer declaration than this is shown with its beginning alone. */
const LONGEST_DECLARATION = 150

const note = "<!-- Written by scripts/reference from what is built: `pnpm reference`. -->"

/** As the formatter leaves it, which is how the sources read. In one run, since starting it takes the longest. */
const formatted = (codes: ReadonlyArray<string>): ReadonlyArray<string> => {
  const separator = "\n// next name\n"
  const { error, status, stderr, stdout } = spawnSync(
    process.execPath,
    [join(repository, "node_modules/oxfmt/bin/oxfmt"), "--stdin-filepath", "reference.d.ts"],
    { cwd: repository, input: codes.join(separator), encoding: "utf8", maxBuffer: 64 * 1024 * 1024 },
  )
  if (status !== 0) throw new Error(`the formatter failed: ${stderr}${String(error ?? "")}`)
  const pieces = stdout.split(/^\/\/ next name$/m)
  if (pieces.length !== codes.length) throw new Error("the formatter moved what stands between two names")
  return pieces.map((code) =>
    code
      .replaceAll(/^(export )?(declare )?/gm, "")
      .replaceAll(/^ *#private\n/gm, "")
      // The compiler says where a type comes from that no import of the file names.
      .replaceAll(/\bimport\("[^"]+"\)\./g, "")
      .trim(),
  )
}

const shortened = (code: string, source: string): string => {
  const lines = code.split("\n")
  if (lines.length <= LONGEST_DECLARATION) return code
  return [...lines.slice(0, 20), `// … and ${lines.length - 20} lines more: see ${source}`].join("\n")
}

/** Headings get the anchors that GitHub gives them: a repeated one is counted. */
const anchors = (headings: ReadonlyArray<string>): ReadonlyArray<string> => {
  const seen = new Map<string, number>()
  return headings.map((heading) => {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-")
    const repeats = seen.get(slug) ?? 0
    seen.set(slug, repeats + 1)
    return repeats === 0 ? slug : `${slug}-${repeats}`
  })
}

const inGroups = (exported: ReadonlyArray<Exported>) =>
  groups
    .map((group) => ({
      group,
      // By code units: the order must not depend on the language of a machine.
      members: exported.filter((each) => each.group === group).sort((one, other) => (one.name < other.name ? -1 : 1)),
    }))
    .filter(({ members }) => members.length > 0)

const elsewhereSection = ({ elsewhere }: ReadDoor, pageOf: (door: string) => string): string => {
  if (elsewhere.size === 0) return ""
  const homes = [...new Set(elsewhere.values())]
  const lines = homes.map((home) => {
    const names = [...elsewhere].filter(([, door]) => door === home).map(([name]) => `\`${name}\``)
    return `From [\`${home}\`](${pageOf(home)}): ${names.sort().join(", ")}.`
  })
  return `\n## Told elsewhere\n\n${lines.join("\n\n")}\n`
}

const doorPage = (door: DoorOfReference, readDoor: ReadDoor, pageOf: (door: string) => string): string => {
  const sections = inGroups(readDoor.exported)
  const headings = [door.name, ...sections.flatMap(({ group, members }) => [group, ...members.map(({ name }) => name)])]
  const slugs = anchors(headings)
  let at = 0
  const index = sections.map(({ group, members }) => {
    at += 1
    const links = members.map(({ name }) => `[\`${name}\`](#${slugs[(at += 1)]})`)
    return `- ${group}: ${links.join(", ")}`
  })
  const body = sections.map(
    ({ group, members }) => `\n## ${group}\n\n${members.map((each) => exportedSection(each)).join("\n")}`,
  )
  const contents = index.join("\n")
  return `${note}

# ${door.name}

${door.forWhom}
${contents === "" ? "" : `\n${contents}\n`}${body.join("")}${elsewhereSection(readDoor, pageOf)}`
}

/** The fence is called `cts`, which is colored as TypeScript, and which the check of snippets leaves alone. */
const exportedSection = ({ name, doc, code, source }: Exported): string =>
  `### ${name}\n\n${doc === "" ? "" : `${doc}\n\n`}\`\`\`cts\n${code}\n\`\`\`\n\n[${source.replace(/^packages\//, "")}](../../${source})\n`

const overview = (doors: ReadonlyArray<DoorOfReference>): string => `${note}

# Reference

Every name that kiln lets through, a page for each door. A door is what an import names; behind it is nothing one may use. The
programs without Effect need the first part alone.

## Without Effect

${doorTable(doors.filter(({ name }) => !withEffect.test(name)))}

## With Effect, and for who extends kiln

${doorTable(doors.filter(({ name }) => withEffect.test(name)))}
`

const withEffect = /\/(effect|ports|domain|worker|api|openai)$|^@kiln\/(http|provider-http|conformance(\/model)?)$/

const doorTable = (doors: ReadonlyArray<DoorOfReference>): string =>
  [
    "| Door | For whom |",
    "|---|---|",
    ...doors.map(({ name, page, forWhom }) => `| [\`${name}\`](${page}) | ${forWhom} |`),
  ].join("\n")

/** The text of every page under the name of its file. */
export const referencePages = (
  doors: ReadonlyArray<DoorOfReference>,
  read: ReadonlyMap<string, ReadDoor>,
): ReadonlyMap<string, string> => {
  const pageOf = (name: string): string => doors.find((door) => door.name === name)?.page ?? "README.md"
  const codes = formatted([...read.values()].flatMap(({ exported }) => exported.map(({ code }) => code)))
  let at = 0
  const pages = doors.map((door): readonly [string, string] => {
    const { elsewhere, exported } = read.get(door.name) ?? { exported: [], elsewhere: new Map<string, string>() }
    const shown = exported.map((each) => ({ ...each, code: shortened(codes[at++] ?? "", each.source) }))
    return [door.page, doorPage(door, { exported: shown, elsewhere }, pageOf)]
  })
  return new Map([["README.md", overview(doors)], ...pages])
}
