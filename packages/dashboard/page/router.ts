import { useEffect, useState } from "preact/hooks"

/** A place of the page, as the URL's fragment names it: `#/jobs?type=speech_synthesis`. */
export interface Place {
  readonly path: ReadonlyArray<string>
  readonly query: Readonly<Record<string, string>>
}

const readPlace = (): Place => {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?")
  return {
    path: path
      .split("/")
      .filter((segment) => segment !== "")
      .map(decodeURIComponent),
    query: Object.fromEntries(new URLSearchParams(search)),
  }
}

/** Returns the link to a place. Empty fields are left out. */
export const linkTo = (
  path: ReadonlyArray<string>,
  query: Readonly<Record<string, string | null | undefined>> = {},
): string => {
  const fields = Object.entries(query).filter((field): field is [string, string] => field[1] != null && field[1] !== "")
  const search = new URLSearchParams(fields).toString()
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`
}

export const usePlace = (): Place => {
  const [place, setPlace] = useState(readPlace)
  useEffect(() => {
    const follow = () => setPlace(readPlace())
    addEventListener("hashchange", follow)
    return () => removeEventListener("hashchange", follow)
  }, [])
  return place
}
