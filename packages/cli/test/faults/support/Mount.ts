import { execFileSync } from "node:child_process"
import { closeSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"

const mount = (...args: ReadonlyArray<string>): void => void execFileSync("mount", args)

/** An empty directory on a file system of its own, which goes with its scope. */
export const smallDisk = (megabytes: number) => {
  const directory = temporaryDirectory()
  mount("-t", "tmpfs", "-o", `size=${megabytes}m,mode=700`, "kiln-faults", directory.path)
  return disposable(directory)
}

/** An empty directory on a file system of its own that can be taken away and given back, with its content, under running processes. */
export const removableDisk = (megabytes: number) => {
  const disk = smallDisk(megabytes)
  const place = temporaryDirectory()
  const giveBack = (): void => mount("--bind", disk.path, place.path)
  giveBack()
  let isThere = true
  return {
    path: place.path,
    takeAway: (): void => {
      execFileSync("umount", ["-l", place.path])
      isThere = false
    },
    giveBack: (): void => {
      giveBack()
      isThere = true
    },
    [Symbol.dispose]: () => {
      if (isThere) execFileSync("umount", ["-l", place.path])
      place[Symbol.dispose]()
      disk[Symbol.dispose]()
    },
  }
}

/** An empty directory that can be made read-only as a whole, for root too. */
export const switchableDisk = () => {
  const directory = temporaryDirectory()
  mount("--bind", directory.path, directory.path)
  return {
    ...disposable(directory),
    /** Refused by the system while somebody has a file there open for writing. */
    become: (access: "ro" | "rw"): void => mount("-o", `remount,bind,${access}`, directory.path),
  }
}

const disposable = (directory: ReturnType<typeof temporaryDirectory>) => ({
  path: directory.path,
  [Symbol.dispose]: () => {
    // Lazily: a process that was just killed may still be going.
    execFileSync("umount", ["-l", directory.path])
    directory[Symbol.dispose]()
  },
})

/** Takes all the room there is left but these bytes; what it answers gives it back. */
export const fill = (directory: string, room = 0): (() => void) => {
  const path = join(directory, "ballast")
  const file = openSync(path, "w")
  for (let size = 1_048_576; size >= 1;) {
    try {
      if (writeSync(file, Buffer.alloc(size)) < size) size = Math.floor(size / 2)
    } catch {
      size = Math.floor(size / 2)
    }
  }
  closeSync(file)
  if (room > 0) truncateSync(path, statSync(path).size - room)
  return () => rmSync(path)
}
