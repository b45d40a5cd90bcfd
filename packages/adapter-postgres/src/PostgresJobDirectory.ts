import { JobDirectory } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { countJobs } from "./sql/countJobs.ts"
import { listJobs } from "./sql/listJobs.ts"
import { readJobs } from "./sql/readJobs.ts"

export const makePostgresJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (session) => listJobs(session, page)),
    countJobs: (question) => db.read("JobDirectory.countJobs", (session) => countJobs(session, question)),
    readJobs: (jobIds) => db.read("JobDirectory.readJobs", (session) => readJobs(session, jobIds)),
  })
