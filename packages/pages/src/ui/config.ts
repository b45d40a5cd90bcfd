import type { PageConfig } from "@kiln/http"

/** Reads what the service wrote into the page. */
export const readConfig = (): PageConfig => {
  const config = JSON.parse(document.body.dataset["config"] ?? "{}") as PageConfig
  // The page may be open under another name of the same service: `localhost` instead of `127.0.0.1`.
  return { ...config, url: new URL(config.url).origin === location.origin ? config.url : servedFrom() }
}

const servedFrom = (): string => location.origin + location.pathname.replace(/\/(?:docs)?$/, "")
