import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { build } from "esbuild"

/** Sources of the packages, the scripts that build them, and the assets they are published with. */
const inputs = [
  "packages/*/{src,bin,assets}/**/*",
  "packages/*/{package,tsconfig.build}.json",
  "scripts/publish/**/*",
  "*.{json,yaml}",
]

const hashOf = (checkout: string, files: ReadonlyArray<string>): string => {
  const hash = createHash("sha256")
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(join(checkout, file)))
  return hash.digest("hex").slice(0, 16)
}

/**
 * Builds the packages of a checkout as they are published, into a directory outside of it, and returns that. A checkout that
 * has not changed is not built again. Throws with the compiler's message.
 */
export const buildPackages = (checkout: string): string => {
  const files = globSync(inputs, { cwd: checkout, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(checkout.length + 1))
    .toSorted()
  const built = join(tmpdir(), `kiln-bench-${hashOf(checkout, files)}`)
  if (existsSync(built)) {
    utimesSync(built, new Date(), new Date())
    return built
  }
  const unfinished = `${built}-${process.pid}`
  for (const file of files) {
    mkdirSync(dirname(join(unfinished, file)), { recursive: true })
    cpSync(join(checkout, file), join(unfinished, file))
  }
  symlinkSync(join(checkout, "node_modules"), join(unfinished, "node_modules"))
  for (const name of readdirSync(join(unfinished, "packages"))) {
    const modules = join("packages", name, "node_modules")
    // The links of a package lead to other packages beside it, and through the root to what is installed.
    if (existsSync(join(checkout, modules)))
      cpSync(join(checkout, modules), join(unfinished, modules), { recursive: true, verbatimSymlinks: true })
  }
  const { status, stderr, stdout } = spawnSync(process.execPath, ["scripts/publish/build.ts"], {
    cwd: unfinished,
    encoding: "utf8",
  })
  if (status !== 0) throw new Error(`the build of ${checkout} failed:\n${stdout}${stderr}`)
  // The launcher prefers sources.
  for (const source of globSync("packages/*/src", { cwd: unfinished }))
    rmSync(join(unfinished, source), { recursive: true })
  try {
    renameSync(unfinished, built)
  } catch (error) {
    // Another run has built the same sources meanwhile.
    if (!existsSync(built)) throw error
    rmSync(unfinished, { recursive: true })
  }
  return built
}

/** Removes builds that were not used for a day. */
export const removeOldBuilds = (): void => {
  for (const name of globSync("kiln-bench-????????????????", { cwd: tmpdir() })) {
    const path = join(tmpdir(), name)
    if (Date.now() - statSync(path).mtimeMs > 86_400_000) rmSync(path, { recursive: true, force: true })
  }
}

/** Bundles the measured programs, so that no process pays for reading TypeScript. Returns their directory. */
export const buildPrograms = async (): Promise<string> => {
  // Below `node_modules`, where the peers are found.
  const outdir = join(import.meta.dirname, "node_modules/.kiln-bench")
  await build({
    entryPoints: globSync("child/{child,httpServer,files}.ts", { cwd: import.meta.dirname }).map((file) =>
      join(import.meta.dirname, file),
    ),
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node24",
    packages: "external",
    logLevel: "error",
  })
  return outdir
}

/** Installs the other engines by their own lockfile; takes a second if they are there. Throws if that fails. */
export const installPeers = (): void => {
  const { status, stderr, stdout } = spawnSync(
    "npx",
    ["-y", "pnpm@12", "install", "--frozen-lockfile", "--prefer-offline"],
    {
      cwd: import.meta.dirname,
      encoding: "utf8",
      shell: process.platform === "win32",
    },
  )
  if (status !== 0) throw new Error(`cannot install the other engines in bench/: ${stdout}${stderr}`)
}
