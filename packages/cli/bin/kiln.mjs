#!/usr/bin/env node
// The one way into the command line. It is plain JavaScript because a Node too old for kiln cannot read TypeScript, and
// would say so with a stack trace instead of a sentence.
import module from "module"
import { requireNode } from "./requireNode.mjs"

// An `import` of these modules would read all of their properties, some of which load more.
const require = module.createRequire(import.meta.url)
const fs = require("fs")
const path = require("path")

const SOURCE_CONDITION = "@kiln/source"

/** Returns the sources of a checkout, which are beside this file; an installed package runs its build, because Node strips no types there. */
function sources() {
  const source = new URL("../src/main.ts", import.meta.url)
  return fs.existsSync(source) && !import.meta.url.includes("/node_modules/") ? source : undefined
}

/**
 * The bundle of everything starts three times faster than the modules. It has its own copy of Effect, which the modules of a configuration
 * must share. The package `kiln` has bundles alone.
 */
function builtEntry(answers, args) {
  const bundle = new URL(isBrief(answers, args) ? "../dist/brief/brief.js" : "../dist/bundle/main.js", import.meta.url)
  const modules = new URL("../dist/main.js", import.meta.url)
  return fs.existsSync(bundle) && !(namesConfiguration() && fs.existsSync(modules)) ? bundle : modules
}

/** Whether the command has a program of its own. Completions name all commands. */
function isBrief(answers, args) {
  const isCompletion = args.some((arg) => arg.startsWith("--completions"))
  return answers !== undefined && !isCompletion && answers.brief.includes(args[0])
}

/** Reads what the build wrote for this file; undefined if there is none. */
function readAnswers() {
  try {
    return JSON.parse(fs.readFileSync(new URL("../dist/bundle/answers.json", import.meta.url), "utf8"))
  } catch {
    return undefined
  }
}

/** Returns what the program would print for its version or for help, which it takes ten times longer to start for; or undefined. */
function answerOf(answers, args) {
  const [first, ...rest] = args
  if (args.length === 1 && ["--version", "-v", "version"].includes(first)) {
    const { version } = JSON.parse(fs.readFileSync(new URL("../package.json", import.meta.url), "utf8"))
    return `kiln ${version}\n`
  }
  const command = first === "help" ? rest : ["--help", "-h"].includes(args.at(-1)) ? args.slice(0, -1) : undefined
  const name = command === undefined ? "-" : command.join(" ")
  if (!Object.hasOwn(answers.help, name)) return undefined
  const [plain, colored] = answers.help[name]
  return process.stdout.isTTY && process.env.NO_COLOR === undefined ? colored : plain
}

/**
 * Lets Node keep the compiled program for the next start, in a directory that only this user may write: who can write there runs code as
 * this user. NODE_COMPILE_CACHE names another directory, and NODE_DISABLE_COMPILE_CACHE=1 prevents it. Where nothing can be written,
 * each start compiles.
 */
function keepCompiled() {
  try {
    const caches = process.env.XDG_CACHE_HOME || path.join(require("os").homedir(), ".cache")
    if (!path.isAbsolute(caches) || process.platform === "win32") return
    const directory = path.join(caches, "kiln")
    // One by one: where a file system refuses new names, Node never stops trying to create a path.
    for (const one of [caches, directory]) if (!fs.existsSync(one)) fs.mkdirSync(one, { mode: 0o700 })
    const { mode, uid } = fs.statSync(directory)
    if (uid === process.getuid() && (mode & 0o022) === 0) module.enableCompileCache(directory)
  } catch {
    // No home directory, for example.
  }
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
      return { url: require("url").pathToFileURL(file).href, format: "module-typescript", shortCircuit: true }
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
  const v8 = require("v8")
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
  const args = process.argv.slice(2)
  const source = sources()
  if (source !== undefined) {
    collectEarly()
    return launchSources(source)
  }
  const answers = readAnswers()
  const answer = answers && answerOf(answers, args)
  if (answer !== undefined) {
    // A closed output, as of `kiln --help | head`, is no failure.
    process.stdout.on("error", () => undefined).write(answer)
    return
  }
  collectEarly()
  const main = builtEntry(answers, args)
  if (!fs.existsSync(main)) {
    complain("kiln: found neither src/main.ts nor dist/main.js: the package is incomplete, install it again.")
    return
  }
  keepCompiled()
  return import(main.href)
}

function launchSources(main) {
  try {
    resolveSources()
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error
    complain("kiln: found no installed dependencies: run `npx -y pnpm@12 install` in the checkout first.")
    return
  }
  return import(main.href)
}

const unsupported = requireNode(process.versions.node)
if (unsupported === undefined) launch()
else complain(unsupported)
