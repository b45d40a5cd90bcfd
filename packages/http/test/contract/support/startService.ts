import { openPlace, type Place } from "./Place.ts"
import type { Service, ServiceSettings, StoreName } from "./Service.ts"
import { startInside } from "./startInside.ts"
import { startProcesses } from "./startProcesses.ts"

/** Only a service in this process has ports that a test can intercept, and its own providers. */
const needsHandInside = ({ holds, transcript, wrap }: ServiceSettings): boolean =>
  transcript !== undefined || wrap !== undefined || holds === true

/** Starts a service. A place that is given is left as it is when the service stops. */
export const startService = async (
  store: StoreName,
  settings: ServiceSettings = {},
  kept?: Place,
): Promise<Service> => {
  const place = kept ?? (await openPlace(store))
  const leave = async () => {
    if (kept === undefined) await place[Symbol.asyncDispose]()
  }
  try {
    const inside = store !== "postgres" || needsHandInside(settings)
    const service = await (inside ? startInside(store, settings, place) : startProcesses(settings, place))
    const { stop } = service
    const stopAndLeave = async () => {
      try {
        await stop()
      } finally {
        await leave()
      }
    }
    return Object.assign(service, { stop: stopAndLeave })
  } catch (error) {
    await leave()
    throw error
  }
}
