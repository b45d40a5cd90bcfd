import { useLayoutEffect, useRef } from "preact/hooks"

/**
 * Keeps the keyboard where it was: when the focused button of a container disappears, the container takes the focus, so that the next
 * Tab goes on from there. Spread the result into the container.
 */
export const useKeepFocus = <Element extends HTMLElement>() => {
  const ref = useRef<Element>(null)
  const hadFocus = useRef(false)
  useLayoutEffect(() => {
    if (hadFocus.current && document.activeElement === document.body) ref.current?.focus({ preventScroll: true })
  })
  return {
    ref,
    tabIndex: -1,
    onFocusIn: () => void (hadFocus.current = true),
    // Without a target, the focused element has gone, or a click went nowhere.
    onFocusOut: ({ relatedTarget }: FocusEvent) => void (hadFocus.current = relatedTarget === null),
  }
}
