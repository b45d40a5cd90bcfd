import { auditCommand } from "./audit.ts"
import { billingCommand } from "./billing.ts"
import { configCommand } from "./config.ts"
import { deliveryCommand } from "./delivery.ts"
import { jobCommand } from "./job.ts"
import { keyCommand } from "./key.ts"
import { migrateCommand } from "./migrate.ts"
import { priceCommand } from "./price.ts"
import { projectCommand } from "./project.ts"
import { queueCommand } from "./queue.ts"
import { retentionCommand } from "./retention.ts"
import { scheduleCommand } from "./schedule.ts"
import { signingKeyCommand } from "./signingKey.ts"
import { switchCommand } from "./switch.ts"
import { tokenCommand } from "./token.ts"

/** Commands that read or change records and end. They share most of what they load. */
export const briefCommands = {
  project: projectCommand,
  key: keyCommand,
  token: tokenCommand,
  job: jobCommand,
  queue: queueCommand,
  schedule: scheduleCommand,
  delivery: deliveryCommand,
  switch: switchCommand,
  price: priceCommand,
  billing: billingCommand,
  audit: auditCommand,
  retention: retentionCommand,
  "signing-key": signingKeyCommand,
  config: configCommand,
  migrate: migrateCommand,
} as const
