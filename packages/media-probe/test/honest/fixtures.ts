import { copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs"

const directory = new URL("../fixtures/honest/", import.meta.url)
const list = new URL("files.tsv", directory)

/** A committed file of the honest corpus. */
export interface Fixture {
  readonly file: string
  readonly format: string
  readonly seconds: number
  /** The recipe that builds the file; empty for files that were made by hand. */
  readonly recipe: string
}

/** Returns the committed files. */
export const fixtures = (): ReadonlyArray<Fixture> =>
  readFileSync(list, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [file = "", format = "", seconds = "", recipe = ""] = line.split("\t")
      return { file, format, seconds: Number(seconds), recipe }
    })

export const readFixture = (file: string): Buffer => readFileSync(new URL(file, directory))

/** Copies the files of recipes into the repository again, and writes their durations. */
export const updateFixtures = (
  built: ReadonlyMap<string, { readonly path: string; readonly seconds: number }>,
): void => {
  const [heading = ""] = readFileSync(list, "utf8").split("\n")
  const rows = fixtures().map((fixture) => {
    const made = built.get(fixture.recipe)
    if (made === undefined || !existsSync(made.path)) return fixture
    copyFileSync(made.path, new URL(fixture.file, directory))
    return { ...fixture, seconds: made.seconds }
  })
  const lines = rows.map(({ file, format, recipe, seconds }) =>
    [file, format, seconds.toFixed(4), recipe].join("\t").trimEnd(),
  )
  writeFileSync(list, `${[heading, ...lines].join("\n")}\n`)
  const bytes = rows.reduce((sum, { file }) => sum + statSync(new URL(file, directory)).size, 0)
  console.log(`${rows.length} committed files, ${(bytes / 1000).toFixed(0)} kB`)
}
