import { KeyDirectory } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { createFirstKey } from "./sql/createFirstKey.ts"
import { createKey } from "./sql/createKey.ts"
import { createProject } from "./sql/createProject.ts"
import { findKey } from "./sql/findKey.ts"
import { listKeys } from "./sql/listKeys.ts"
import { listProjects } from "./sql/listProjects.ts"
import { revokeKey } from "./sql/revokeKey.ts"
import { touchKeys } from "./sql/touchKeys.ts"

export const makeSqliteKeyDirectory = (db: Database): KeyDirectory["Service"] =>
  KeyDirectory.of({
    createProject: (project) => db.write("KeyDirectory.createProject", (tx) => createProject(tx, project)),
    listProjects: db.read("KeyDirectory.listProjects", listProjects),
    createKey: (key) => db.write("KeyDirectory.createKey", (tx) => createKey(tx, key)),
    createFirstKey: (project, key) => db.write("KeyDirectory.createFirstKey", (tx) => createFirstKey(tx, project, key)),
    listKeys: db.read("KeyDirectory.listKeys", listKeys),
    revokeKey: (keyId) => db.write("KeyDirectory.revokeKey", (tx) => revokeKey(tx, keyId)),
    findKey: (secretHash) => db.read("KeyDirectory.findKey", (tx) => findKey(tx, secretHash)),
    touchKeys: (uses) => db.write("KeyDirectory.touchKeys", (tx) => touchKeys(tx, uses)),
  })
