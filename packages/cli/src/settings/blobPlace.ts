import { resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/**
 * Location of blobs: a directory (`undefined`: the data directory), the Postgres database of the records, a module that exports
 * an unstorage instance, or an S3 bucket.
 */
export type BlobPlace =
  | { readonly _tag: "Postgres" }
  | { readonly _tag: "Directory"; readonly path: string | undefined }
  | { readonly _tag: "Module"; readonly path: string }
  | S3Url

/** `s3://bucket/prefix?region=…&endpoint=…&style=…`. `region` may come from `AWS_REGION` or the profile instead. */
export interface S3Url {
  readonly _tag: "S3"
  readonly bucket: string
  readonly prefix: string | undefined
  readonly region: string | undefined
  readonly endpoint: string | undefined
  readonly style: "path" | "host" | undefined
}

const isModule = (path: string): boolean => /\.[cm]?[jt]s$/.test(path)

/** `file:`, `file:/path` (also `file:relative` and `file:///path`), `postgres`, `s3://bucket/prefix`, or the path of a module. */
export const blobPlace: SettingType<BlobPlace> = (text) => {
  if (text === "postgres") return parsed({ _tag: "Postgres" })
  if (text === "file:") return parsed({ _tag: "Directory", path: undefined })
  if (text.startsWith("file://")) return fileUrl(text)
  if (text.startsWith("file:")) return parsed({ _tag: "Directory", path: resolve(text.slice("file:".length)) })
  if (text.startsWith("s3:")) return s3Url(text)
  return isModule(text) ? parsed({ _tag: "Module", path: resolve(text) }) : broken(rule)
}

const rule =
  "must be file:, file:/a/directory, postgres, s3://bucket/prefix, or the path of a .ts, .js or .mjs module that exports an unstorage instance"

const fileUrl: SettingType<BlobPlace> = (text) => {
  try {
    return parsed({ _tag: "Directory", path: fileURLToPath(text) })
  } catch {
    return broken(rule)
  }
}

const s3Names = ["region", "endpoint", "style"]
const s3Rule =
  "must be s3://bucket/prefix?region=…&endpoint=…, with the region of the bucket and the URL of a service other than AWS"

const s3Url: SettingType<BlobPlace> = (text) => {
  const url = URL.parse(text)
  if (url === null || url.hostname === "" || url.hash !== "" || url.port !== "") return broken(s3Rule)
  // A shell history and a process list show it.
  if (url.username !== "")
    return broken("must not contain an access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
  const names = [...url.searchParams.keys()]
  if (new Set(names).size < names.length || names.some((name) => !s3Names.includes(name)))
    return broken(`accepts only the parameters ${s3Names.join(", ")}, each at most once`)
  const read = (name: string): string | undefined => url.searchParams.get(name)?.trim() || undefined
  const style = read("style")
  if (style !== undefined && style !== "path" && style !== "host") return broken("style must be path or host")
  const prefix = url.pathname.replaceAll(/^\/+|\/+$/g, "")
  return parsed({
    _tag: "S3",
    bucket: url.hostname,
    prefix: prefix === "" ? undefined : prefix,
    region: read("region"),
    endpoint: read("endpoint"),
    style,
  })
}
