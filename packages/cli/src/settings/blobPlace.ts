import { resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Location of blobs: a directory (`undefined`: the data directory), or a module that exports an unstorage instance. */
export type BlobPlace =
  | { readonly _tag: "Directory"; readonly path: string | undefined }
  | { readonly _tag: "Module"; readonly path: string }

const isModule = (path: string): boolean => /\.[cm]?[jt]s$/.test(path)

/** `file:`, `file:/path` (also `file:relative` and `file:///path`), or the path of a module. */
export const blobPlace: SettingType<BlobPlace> = (text) => {
  if (text === "file:") return parsed({ _tag: "Directory", path: undefined })
  if (text.startsWith("file://")) return fileUrl(text)
  if (text.startsWith("file:")) return parsed({ _tag: "Directory", path: resolve(text.slice("file:".length)) })
  return isModule(text) ? parsed({ _tag: "Module", path: resolve(text) }) : broken(rule)
}

const rule =
  "must be file:, file:/a/directory, or the path of a .ts, .js or .mjs module that exports an unstorage instance"

const fileUrl: SettingType<BlobPlace> = (text) => {
  try {
    return parsed({ _tag: "Directory", path: fileURLToPath(text) })
  } catch {
    return broken(rule)
  }
}
