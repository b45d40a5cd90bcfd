import { globSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { PackedPackage } from "../../scripts/publish/pack.ts"
import { runTool, type ToolResult } from "../../scripts/publish/runTool.ts"
import { repository } from "../support/plantTree.ts"

export type Installer = "npm" | "pnpm"

/** What pnpm is to take from tarballs, also where one package of ours depends on another. */
const pnpmWorkspace = (tarballs: Readonly<Record<string, string>>): string =>
  [
    "packages:",
    '  - "."',
    "overrides:",
    ...Object.entries(tarballs).map(([name, to]) => `  "${name}": "${to}"`),
    "",
  ].join("\n")

/**
 * A project that had nothing before, in a directory far from the repository, with the packed packages installed by their
 * users' own installer. What others publish comes from the registry, or from the installer's cache where that has it.
 */
export class InstalledProject implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "kiln-installed-")))
  /** The environment of its programs, without Node flags and pnpm variables of the test run. */
  readonly environment: NodeJS.ProcessEnv

  constructor(installer: Installer, packed: ReadonlyArray<PackedPackage>) {
    this.environment = Object.fromEntries(
      Object.entries(process.env).filter(
        ([name]) => !/^(NODE_OPTIONS|NODE_PATH|INIT_CWD|VITEST.*|npm_(?!config_).*)$/.test(name),
      ),
    )
    const tarballs = Object.fromEntries(packed.map(({ manifest, tarball }) => [manifest.name, `file:${tarball}`]))
    const manifest = {
      name: "empty-project",
      private: true,
      type: "module",
      dependencies: tarballs,
      devDependencies: { "@types/node": versionOf("@types/node") },
      ...(installer === "npm" ? { overrides: tarballs } : {}),
    }
    this.write("package.json", JSON.stringify(manifest))
    if (installer === "pnpm") this.write("pnpm-workspace.yaml", pnpmWorkspace(tarballs))
    const args = installer === "npm" ? ["install", "--no-audit", "--no-fund"] : ["-y", "pnpm@12", "install"]
    const installed = this.run(installer === "npm" ? "npm" : "npx", [...args, "--prefer-offline"])
    if (installed.status !== 0) throw new Error(`${installer} could not install the packages:\n${installed.output}`)
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true })
    writeFileSync(join(this.root, path), text)
  }

  run(program: string, args: ReadonlyArray<string>): ToolResult {
    return runTool(program, args, { cwd: this.root, env: this.environment })
  }

  /** Writes a file into the project and runs it as anybody would: `node file`. */
  node(path: string, text: string): ToolResult {
    this.write(path, text)
    return this.run(process.execPath, ["--disable-warning=ExperimentalWarning", path])
  }

  /** Returns the compiler's messages about programs of the project, including the declarations they import. */
  compile(...files: ReadonlyArray<string>): ReadonlyArray<string> {
    // Effect's declarations name parts of the Web that are in no other library.
    const lib = ["ES2024", "ESNext.Disposable", "DOM"]
    const compilerOptions = {
      target: "ES2024",
      lib,
      module: "NodeNext",
      types: ["node"],
      strict: true,
      noEmit: true,
      // As in monorepos: the types of what a module exports must have names that others can import.
      declaration: true,
      skipLibCheck: false,
    }
    this.write("tsconfig.json", JSON.stringify({ compilerOptions, files }))
    const compiler = join(repository, "node_modules/typescript/bin/tsc")
    const { output } = this.run(process.execPath, [compiler, "-p", "tsconfig.json", "--pretty", "false"])
    return output.split("\n").filter((line) => line !== "")
  }

  /** How many copies of a package are installed. */
  copies(name: string): number {
    const found = globSync(`node_modules/{.pnpm/*/node_modules/,**/node_modules/,}${name}/package.json`, {
      cwd: this.root,
    })
    return new Set(found.map((path) => realpathSync(join(this.root, path)))).size
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}

const versionOf = (name: string): string => {
  const { version }: { readonly version: string } = JSON.parse(
    readFileSync(join(repository, "node_modules", name, "package.json"), "utf8"),
  )
  return version
}
