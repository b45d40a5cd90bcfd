import { fork, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { describe, expect, it } from "vitest"
import { requireNode } from "../bin/requireNode.mjs"

const bin = join(import.meta.dirname, "../bin")

const run = (
  node: string,
  script: string,
  args: ReadonlyArray<string> = [],
  settings: Readonly<Record<string, string>> = {},
) => {
  // Settings of the surrounding test run (conditions among them) must not reach the launcher under test.
  const { NODE_OPTIONS: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(node, [script, ...args], {
    encoding: "utf8",
    env: { ...env, ...settings },
    timeout: 120_000,
  })
  return { status, stdout, stderr }
}

/** A checkout (or an installed package) with only the launcher and the files given. */
const plant = (files: Readonly<Record<string, string>>, below = "packages/cli") => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "kiln-launcher-")))
  cpSync(bin, join(root, below, "bin"), { recursive: true })
  for (const [path, text] of Object.entries({ "package.json": `{"type":"module"}`, ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return {
    root,
    script: join(root, below, "bin/kiln.mjs"),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  }
}

const core = {
  "packages/core/package.json": JSON.stringify({
    name: "@kiln/core",
    type: "module",
    exports: {
      ".": { "@kiln/source": "./src/index.ts", default: "./dist/index.js" },
      "./domain": { "@kiln/source": "./src/domain/index.ts", default: "./dist/domain/index.js" },
    },
  }),
  "packages/core/src/index.ts": `export const from: string = "sources"\n`,
  "packages/core/src/domain/index.ts": `export const domain: string = "domain"\n`,
  "packages/cli/src/main.ts": `
    import { from } from "@kiln/core"
    import { domain } from "@kiln/core/domain"
    console.log(from, domain, ...process.argv.slice(2))
  `,
}

const linkCore = (root: string): void => {
  mkdirSync(join(root, "node_modules/@kiln"), { recursive: true })
  symlinkSync(join(root, "packages/core"), join(root, "node_modules/@kiln/core"))
}

describe("the heap", () => {
  const files = {
    ...core,
    // Everything that is made stays: with V8's own settings the new space would have grown.
    "packages/cli/src/main.ts": `
      import v8 from "node:v8"
      const kept = Array.from({ length: 400_000 }, (_, n) => ({ n: [n] }))
      const spaces = v8.getHeapSpaceStatistics()
      console.log(spaces.find((space) => space.space_name === "new_space").space_size < 4_000_000, kept.length)
    `,
  }

  it("keeps new objects in a small space", () => {
    using checkout = plant(files)
    linkCore(checkout.root)
    expect(run(process.execPath, checkout.script).stdout).toBe("true 400000\n")
  })

  describe("of the service", () => {
    const service = {
      ...core,
      "packages/cli/src/main.ts": `
        process.send?.("connected")
        console.log(process.pid === Number(process.env.PARENT_SEES), ...process.execArgv, ...process.argv.slice(2))
        process.disconnect?.()
      `,
    }

    it("has more room for new objects: the process starts again as the same one", () => {
      using checkout = plant(service)
      linkCore(checkout.root)
      // The shell replaces itself by the launcher, so the launcher has the process id that the shell knew.
      const command = 'PARENT_SEES=$$ exec "$0" "$@"'
      const args = ["-c", command, process.execPath, "--no-warnings", checkout.script, "serve", "--json"]
      expect(run("/bin/sh", args[0] ?? "", args.slice(1))).toEqual({
        status: 0,
        stdout: "true --no-warnings --max-semi-space-size=8 serve --json\n",
        stderr: "",
      })
    })

    it("stays as it is if modules are preloaded, which may have changed it", () => {
      using checkout = plant(service)
      linkCore(checkout.root)
      const preloaded = "data:text/javascript,delete process.env.PARENT_SEES"
      expect(run(process.execPath, "--import", [preloaded, checkout.script, "serve"]).stdout).toBe(
        `false --import ${preloaded} serve\n`,
      )
    })

    it("stays as it is if its parent talks to it", async () => {
      using checkout = plant(service)
      linkCore(checkout.root)
      const child = fork(checkout.script, ["serve"], { execPath: process.execPath, execArgv: [], silent: true })
      const [said] = (await once(child, "message")) as ReadonlyArray<unknown>
      expect(said).toBe("connected")
      await once(child, "close")
    })
  })

  it("is left to the operator if flags set it", () => {
    using checkout = plant(files)
    linkCore(checkout.root)
    expect(run(process.execPath, "--max-semi-space-size=32", [checkout.script]).stdout).toBe("false 400000\n")
  })
})

describe("requireNode", () => {
  it.each(["14.21.3", "18.20.8", "20.20.2", "22.0.0", "22.18.0", "23.0.0", "23.5.0"])(
    "refuses %s in one line",
    (found) => {
      const line = requireNode(found)
      expect(line).toContain(`found Node ${found}`)
      expect(line).toContain("needs Node 22.19 or newer")
      expect(line).toContain("npx -y pnpm@12 kiln")
      expect(line?.split("\n")).toHaveLength(1)
    },
  )

  it.each(["22.19.0", "22.20.1", "23.6.0", "24.0.0", "24.21.0", "26.1.0", "100.0.0"])("accepts %s", (found) => {
    expect(requireNode(found)).toBeUndefined()
  })
})

describe("the launcher", () => {
  it("runs the sources of a checkout and of the packages they import", () => {
    using checkout = plant(core)
    linkCore(checkout.root)
    expect(run(process.execPath, checkout.script, ["serve", "--json"])).toEqual({
      status: 0,
      stdout: "sources domain serve --json\n",
      stderr: "",
    })
  })

  it("runs the build of an installed package, even if its sources are included", () => {
    const below = "node_modules/@kiln/http"
    const files = {
      [`${below}/package.json`]: `{"type":"module"}`,
      [`${below}/src/main.ts`]: `throw new Error("sources")\n`,
      [`${below}/dist/main.js`]: `console.log("build", ...process.argv.slice(2))\n`,
    }
    using installed = plant(files, below)
    expect(run(process.execPath, installed.script, ["doctor"])).toEqual({
      status: 0,
      stdout: "build doctor\n",
      stderr: "",
    })
  })

  it("prefers the bundle, except for a program with a configuration", () => {
    const below = "node_modules/@kiln/cli"
    const files = {
      [`${below}/package.json`]: `{"type":"module"}`,
      [`${below}/dist/main.js`]: `console.log("build")\n`,
      [`${below}/dist/bundle/main.js`]: `console.log("bundle")\n`,
      "credentials/KILN_CONFIG": "kiln.config.mjs",
    }
    using installed = plant(files, below)
    const startedWith = (settings: Readonly<Record<string, string>>) =>
      run(process.execPath, installed.script, [], settings).stdout.trim()
    expect(startedWith({})).toBe("bundle")
    expect(startedWith({ KILN_CONFIG: "", CREDENTIALS_DIRECTORY: installed.root })).toBe("bundle")
    expect(startedWith({ KILN_CONFIG: "kiln.config.mjs" })).toBe("build")
    expect(startedWith({ KILN_CONFIG_FILE: "path" })).toBe("build")
    expect(startedWith({ CREDENTIALS_DIRECTORY: join(installed.root, "credentials") })).toBe("build")
  })

  describe("with answers that the build wrote", () => {
    const below = "node_modules/@kiln/cli"
    const files = {
      [`${below}/package.json`]: `{"type":"module","version":"1.2.3"}`,
      [`${below}/dist/bundle/main.js`]: `console.log("bundle", ...process.argv.slice(2))\n`,
      [`${below}/dist/brief/brief.js`]: `console.log("brief", ...process.argv.slice(2))\n`,
      [`${below}/dist/bundle/answers.json`]: JSON.stringify({
        brief: ["key"],
        help: { "": ["help\n", "colored help\n"], "key create": ["help of key create\n", "colored\n"] },
      }),
    }

    it.each([
      ["--version", "kiln 1.2.3\n"],
      ["version", "kiln 1.2.3\n"],
      ["--help", "help\n"],
      ["help", "help\n"],
      ["key create -h", "help of key create\n"],
      ["help key create", "help of key create\n"],
      // Everything else is the program's.
      ["key list", "brief key list\n"],
      ["key unknown --help", "brief key unknown --help\n"],
      ["key --completions bash", "bundle key --completions bash\n"],
      ["--help --json", "bundle --help --json\n"],
      ["help constructor", "bundle help constructor\n"],
      ["doctor", "bundle doctor\n"],
    ])("answers kiln %s, or starts the program that has the command", (line, stdout) => {
      using installed = plant(files, below)
      const cache = { XDG_CACHE_HOME: join(installed.root, "cache") }
      expect(run(process.execPath, installed.script, line.split(" "), cache)).toEqual({ status: 0, stdout, stderr: "" })
    })

    it("keeps the compiled program where only the user writes, and runs where nobody can", () => {
      using installed = plant(files, below)
      const cache = join(installed.root, "cache")
      run(process.execPath, installed.script, ["key", "list"], { XDG_CACHE_HOME: cache })
      expect(readdirSync(join(cache, "kiln"))).toHaveLength(1)
      // Code that others may have put there must not run.
      const open = join(installed.root, "open")
      mkdirSync(join(open, "kiln"), { recursive: true })
      chmodSync(join(open, "kiln"), 0o777)
      run(process.execPath, installed.script, ["key", "list"], { XDG_CACHE_HOME: open })
      expect(readdirSync(join(open, "kiln"))).toEqual([])
      // A file in place of the directory stops the superuser too.
      writeFileSync(join(installed.root, "file"), "")
      for (const XDG_CACHE_HOME of [join(installed.root, "file"), "/proc/nowhere"])
        expect(run(process.execPath, installed.script, ["key", "list"], { XDG_CACHE_HOME })).toEqual({
          status: 0,
          stdout: "brief key list\n",
          stderr: "",
        })
    })
  })

  it("says in one line that dependencies are missing", () => {
    using checkout = plant(core)
    const { status, stdout, stderr } = run(process.execPath, checkout.script)
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" })
    expect(stderr).toMatch(/^kiln: found no installed dependencies: .*\n$/)
  })

  it("says in one line that the package is incomplete", () => {
    using checkout = plant({})
    const { status, stderr } = run(process.execPath, checkout.script)
    expect(status).toBe(1)
    expect(stderr).toMatch(/^kiln: found neither .*\n$/)
  })

  it("says in one line that Node is too old", ({ skip }) => {
    const old = (process.env["PATH"] ?? "")
      .split(delimiter)
      .map((directory) => join(directory, "node"))
      .filter((node) => existsSync(node))
      .map((node) => ({
        node,
        version: spawnSync(node, ["-p", "process.versions.node"], { encoding: "utf8", timeout: 120_000 }).stdout.trim(),
      }))
      .find(({ version }) => requireNode(version) !== undefined)
    if (old === undefined) return skip("no Node older than the oldest supported one is on the PATH")
    expect(run(old.node, join(bin, "kiln.mjs"), ["serve"])).toEqual({
      status: 1,
      stdout: "",
      stderr: `${requireNode(old.version)}\n`,
    })
  })
})
