import { runTables } from "./support/tables.ts"
import { files } from "./tables/files.ts"
import { signedUrls } from "./tables/signedUrls.ts"
import { signedUrlSpellings } from "./tables/signedUrlSpellings.ts"

runTables("files", {}, files, signedUrls, signedUrlSpellings)
