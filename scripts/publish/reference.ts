// Writes the reference of every public package as a searchable site: `pnpm reference [directory]`.
// The default directory is `reference`, which git ignores; its `index.html` is the first page.
import { join, relative, resolve } from "node:path"
import { Application } from "typedoc"
import { publicPackages, repository } from "./publicPackages.ts"

/** The source file of every entry point, with the name people import it by, such as `@kiln/core/domain`. */
const entryPoints = (): ReadonlyMap<string, string> =>
  new Map(
    publicPackages().flatMap(({ directory, manifest }) =>
      Object.entries(manifest.exports).map(([path, { "@kiln/source": source = "" }]): [string, string] => [
        join(directory, source),
        manifest.name + path.slice(1),
      ]),
    ),
  )

/** Writes the pages to `directory`, replacing its content, and returns their number. Throws when TypeDoc reports an error. */
export const writeReference = async (directory: string): Promise<number> => {
  const names = entryPoints()
  const app = await Application.bootstrapWithPlugins({
    name: "kiln",
    basePath: repository,
    entryPoints: [...names.keys()].map((file) => join(repository, file)),
    tsconfig: join(repository, "tsconfig.json"),
    readme: "none",
    githubPages: false,
    excludeExternals: true,
    excludePrivate: true,
    disableSources: true,
    logLevel: "Error",
    // `pnpm types` checks them; docstrings inherited from Effect use other tags.
    skipErrorChecking: true,
    validation: false,
  })
  const project = await app.convert()
  if (project === undefined) throw new Error("TypeDoc could not read the sources")
  // TypeDoc names a module after its file, without `/index.ts`.
  const modules = new Map([...names].map(([file, name]) => [file.replace(/(\/index)?\.ts$/, ""), name]))
  for (const module of project.children ?? []) {
    const name = modules.get(module.name)
    if (name === undefined) throw new Error(`TypeDoc found an unknown entry point: ${module.name}`)
    module.name = name
  }
  await app.generateDocs(project, directory)
  if (app.logger.hasErrors()) throw new Error("TypeDoc reported errors")
  return modules.size
}

if (import.meta.main) {
  const directory = resolve(process.argv[2] ?? join(repository, "reference"))
  const written = await writeReference(directory)
  console.log(`wrote the reference of ${written} entry points to ${relative(process.cwd(), directory)}`)
}
