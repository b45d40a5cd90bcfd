import { dirname } from "node:path"
import type { Settings } from "../Settings.ts"

/** Returns the directories on this machine that an installation writes to. */
export const localDirectories = ({ blobs, dataDirectory, database }: Settings): ReadonlyArray<string> => [
  ...new Set([
    ...(database._tag === "Sqlite" ? [dirname(database.path)] : []),
    ...(blobs._tag === "Directory" ? [blobs.path ?? dataDirectory] : []),
  ]),
]
