import { hidden, plant } from "./PlantedBug.ts"

/** In keys, switches, prices, schedules and secrets. */
export const administration = [
  plant("MemoryKeyDirectory.ts", "KeyDirectory.revokeKey, touchKeys", "revoking a key again changes its time", [
    "key === undefined || key.revokedAt !== null ? key",
    "key === undefined ? key",
  ]),
  plant("MemoryKeyDirectory.ts", "KeyDirectory.revokeKey, touchKeys", "a late update sets `last used` back", [
    "Math.max(key.lastUsedAt ?? usedAt, usedAt)",
    "usedAt",
  ]),
  plant("MemoryKeyDirectory.ts", "KeyDirectory.createFirstKey", "a first key is created although one exists", [
    "state.keys.size > 0 ||",
    "",
  ]),
  plant("MemoryKeyDirectory.ts", "KeyDirectory.createProject, listProjects", "two projects get the same name", [
    "if ([...state.projects.values()].some((other) => other.name === project.name)) return undefined",
    "",
  ]),
  hidden(
    plant("MemoryKeyDirectory.ts", "KeyDirectory.rotateKey, identifyKey", "a rotation ends the old secret at once", [
      "const oldSecretsEndAt = now + overlapMs",
      "const oldSecretsEndAt = now",
    ]),
  ),
  hidden(
    plant("MemoryKeyDirectory.ts", "KeyDirectory.rotateKey, identifyKey", "a rotation revives an ended secret", [
      "Math.min(secret.validUntil ?? Infinity, oldSecretsEndAt)",
      "oldSecretsEndAt",
    ]),
  ),
  hidden(
    plant("MemoryKeyDirectory.ts", "KeyDirectory.rotateKey, identifyKey", "a rotation ends the secrets of all keys", [
      "if (secret.keyId === keyId)\n      state",
      "state",
    ]),
  ),
  hidden(
    plant("MemoryKeyDirectory.ts", "KeyDirectory.rotateKey, identifyKey", "a revoked key gets a new secret", [
      "if (key.revokedAt !== null || (",
      "if ((",
    ]),
  ),
  hidden(
    plant("MemoryKeyDirectory.ts", "KeyDirectory.disableProject", "the keys of a disabled project still work", [
      "state.projects.get(key.projectId)?.disabledAt === null",
      "state.projects.has(key.projectId)",
    ]),
  ),
  hidden(
    plant("MemorySecretStore.ts", "SecretStore.replace", "a secret is replaced without a look at it", [
      "if (String(known) !== String(expected)) return false",
      "if ((known === undefined) !== (expected === undefined)) return false",
    ]),
  ),
  plant(
    "MemorySwitchboard.ts",
    "Switchboard.setPrice, activatePrice, listPrices",
    "a new version of an active price is inactive",
    ["versions.some((version) => version.active)", "false"],
  ),
  plant(
    "MemorySwitchboard.ts",
    "Switchboard.setPrice, activatePrice, listPrices",
    "activation takes the first version",
    ["const latest = versions.length", "const latest = 1"],
  ),
  hidden(
    plant(
      "MemoryScheduleStore.ts",
      "ScheduleStore.nextSchedules",
      "a page of schedules begins with the last one of the page before",
      ["byTime(schedule, after) > 0", "byTime(schedule, after) >= 0"],
    ),
  ),
  plant("MemorySecretStore.ts", "SecretStore.getOrCreate", "the last candidate replaces the stored secret", [
    "state.namedSecrets.get(name) ?? candidate.slice()",
    "candidate.slice()",
  ]),
]
