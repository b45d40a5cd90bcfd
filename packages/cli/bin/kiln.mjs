#!/usr/bin/env node
// The one way into the command line. It is plain JavaScript because a Node too old for kiln cannot read TypeScript, and
// would say so with a stack trace instead of a sentence.
import fs from "fs"
import module from "module"
import path from "path"
import { pathToFileURL } from "url"
import v8 from "v8"
import { requireNode } from "./requireNode.mjs"

const SOURCE_CONDITION = "@kiln/source"

/**
 * A checkout has the sources beside this file; an installed package runs its build, because Node strips no types there. The
 * bundle of everything starts three times faster. It has its own copy of Effect, which the modules of a configuration must share.
 * The package `kiln` has the bundle alone.
 */
function entry() {
  const source = new URL("../src/main.ts", import.meta.url)
  if (fs.existsSync(source) && !import.meta.url.includes("/node_modules/")) return source
  const bundle = new URL("../dist/bundle/main.js", import.meta.url)
  const modules = new URL("../dist/main.js", import.meta.url)
  return fs.existsSync(bundle) && !(namesConfiguration() && fs.existsSync(modules)) ? bundle : modules
}

/** Whether the program will load a configuration: its variable or a file has the path. */
function namesConfiguration() {
  const { CREDENTIALS_DIRECTORY: credentials, KILN_CONFIG, KILN_CONFIG_FILE } = process.env
  if (KILN_CONFIG || KILN_CONFIG_FILE) return true
  return Boolean(credentials) && fs.existsSync(path.join(credentials, "KILN_CONFIG"))
}

/**
 * Packages name their sources under a condition. `node --conditions=@kiln/source` sees it; without the flag this does the
 * same for this process, which spares starting a second one (and passing signals on to it).
 */
function resolveSources() {
  if (import.meta.resolve("@kiln/core").endsWith(".ts")) return
  module.registerHooks({
    resolve(specifier, context, next) {
      const name = /^(@kiln\/[^/]+)(\/.+)?$/.exec(specifier)
      const manifest = name === null ? undefined : module.findPackageJSON(name[1], context.parentURL)
      if (manifest === undefined) return next(specifier, context)
      const doors = JSON.parse(fs.readFileSync(manifest, "utf8")).exports
      const door = doors["." + (name[2] || "")]
      if (door === undefined) return next(specifier, context)
      // The real path, not the link below node_modules: Node strips no types there.
      const file = fs.realpathSync(path.join(path.dirname(manifest), door[SOURCE_CONDITION]))
      return { url: pathToFileURL(file).href, format: "module-typescript", shortCircuit: true }
    },
  })
}

/**
 * V8 lets garbage grow to several times what is in use before it collects it: under load that is most of the memory of this
 * program, which needs some 60 MB of heap. So both generations get limits. They do not bound what the program may hold, and flags
 * of the operator take precedence.
 *
 * Commands keep new objects in 1 MB. The service has 8 MB: with less, the requests in flight move to the old generation, whose
 * collections then take a third of the processor time. The old generation must grow by more than that, or it is marked all the
 * time. V8 takes the 8 MB only when it starts, so the process starts again as the same one, which takes 30 ms.
 */
function collectEarly() {
  const given = process.execArgv.concat(process.env.NODE_OPTIONS || "").join(" ")
  let growth = 100
  if (!/semi[-_]space/.test(given)) {
    if (process.argv[2] === "serve" && canStartAgain(given)) startAgain("--max-semi-space-size=8")
    v8.setFlagsFromString("--semi-space-growth-factor=1")
    growth = 30
  }
  if (!/heap[-_]growing/.test(given)) v8.setFlagsFromString("--heap-growing-percent=" + growth)
}

/**
 * False on Windows, if a parent process talks to this one over IPC or systemd passes a socket, which end when the program is
 * replaced, and if modules are preloaded: they would run twice.
 */
function canStartAgain(given) {
  const isAlone =
    process.send === undefined &&
    process.env.LISTEN_FDS === undefined &&
    !/(^|\s)(-r|--require|--import|--loader|--experimental-loader)\b/.test(given)
  return process.execve !== undefined && process.platform !== "win32" && isAlone
}

/** Replaces the program of this process. Returns only if the system does not allow that. */
function startAgain(flag) {
  try {
    process.execve(process.execPath, [process.argv0, ...process.execArgv, flag, ...process.argv.slice(1)])
  } catch {
    // For example, Node's permission model: the service runs as well, with more work for its memory.
  }
}

function complain(line) {
  process.stderr.write(line + "\n")
  process.exitCode = 1
}

function launch() {
  const main = entry()
  if (!fs.existsSync(main)) {
    complain("kiln: found neither src/main.ts nor dist/main.js: the package is incomplete, install it again.")
    return
  }
  if (main.pathname.endsWith(".ts")) {
    try {
      resolveSources()
    } catch (error) {
      if (error.code !== "ERR_MODULE_NOT_FOUND") throw error
      complain("kiln: found no installed dependencies: run `npx -y pnpm@12 install` in the checkout first.")
      return
    }
  }
  return import(main.href)
}

const unsupported = requireNode(process.versions.node)
if (unsupported === undefined) {
  collectEarly()
  launch()
} else complain(unsupported)
