import type { HostileFile } from "./HostileFile.ts"
import { mp3Files } from "./mp3Files.ts"
import { mp4Files } from "./mp4Files.ts"
import { otherFiles } from "./otherFiles.ts"
import { wavFiles } from "./wavFiles.ts"
import { webmFiles } from "./webmFiles.ts"

/** Files made to hang the probe, to be billed for less than their duration, or with other oddities. */
export const corpus: ReadonlyArray<HostileFile> = [...mp3Files, ...wavFiles, ...mp4Files, ...webmFiles, ...otherFiles]
