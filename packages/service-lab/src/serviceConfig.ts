import { join } from "node:path"

/** The config file of services under test: `KILN_CONFIG`. It reads `CONTRACT_RUNNER` and `CONTRACT_ENGINE`. */
export const serviceConfig = join(import.meta.dirname, "service.config.ts")
