import { JobDirectory } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { countJobs } from "./sql/countJobs.ts"
import { listJobs } from "./sql/listJobs.ts"
import { readJobs } from "./sql/readJobs.ts"

export const makeSqliteJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (tx) => listJobs(tx, page)),
    countJobs: (question) => db.read("JobDirectory.countJobs", (tx) => countJobs(tx, question)),
    readJobs: (jobIds) => db.read("JobDirectory.readJobs", (tx) => readJobs(tx, jobIds)),
  })
