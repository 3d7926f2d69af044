/* Passkeys: a form with data-passkey asks the browser for one and sends its answer in the field `credential`.
   Options stand in a JSON block of the page (data-options) or are fetched when the button is pressed (data-options-at). */
"use strict";

(() => {
  if (!window.isSecureContext || !window.PublicKeyCredential) return;
  document.documentElement.dataset.passkeys = "on";

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const ids = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  const create = async (given) => {
    const publicKey = {
      ...given, challenge: bytes(given.challenge), user: { ...given.user, id: bytes(given.user.id) },
      excludeCredentials: ids(given.excludeCredentials),
    };
    const made = await navigator.credentials.create({ publicKey });
    return [made, {
      attestationObject: text(made.response.attestationObject),
      transports: made.response.getTransports ? made.response.getTransports() : [],
    }];
  };
  const get = async (given) => {
    const publicKey = { ...given, challenge: bytes(given.challenge), allowCredentials: ids(given.allowCredentials) };
    const made = await navigator.credentials.get({ publicKey });
    const handle = made.response.userHandle;
    return [made, {
      authenticatorData: text(made.response.authenticatorData), signature: text(made.response.signature),
      userHandle: handle ? text(handle) : null,
    }];
  };
  const options = async (form) => {
    if (form.dataset.options) return JSON.parse(document.getElementById(form.dataset.options).textContent);
    const answer = await fetch(form.dataset.optionsAt, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The console answered ${answer.status}.`);
    return answer.json();
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.passkey || form.elements.credential.value) return;
    event.preventDefault();
    const problem = form.querySelector("[data-passkey-problem]");
    problem.hidden = true;
    try {
      const given = (await options(form)).publicKey;
      const [made, response] = await (form.dataset.passkey === "create" ? create(given) : get(given));
      form.elements.credential.value = JSON.stringify({
        id: made.id, rawId: text(made.rawId), type: made.type, authenticatorAttachment: made.authenticatorAttachment,
        clientExtensionResults: made.getClientExtensionResults(),
        response: { clientDataJSON: text(made.response.clientDataJSON), ...response },
      });
      form.submit();
    } catch (error) {
      problem.textContent = error.name === "NotAllowedError"
        ? "No passkey was given. Try again, or take another way."
        : `The passkey could not be used: ${error.message}`;
      problem.hidden = false;
    }
  });
})();
