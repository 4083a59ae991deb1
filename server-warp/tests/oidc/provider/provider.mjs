// The certified OpenID Connect provider `oidc-provider` from npm, with people who sign in without a
// password. Input and output are JSON, one value per line.
//
// It first prints {"issuer"}. The command {"account", "claims"} sets what the provider says about a
// person, and is repeated in the output. The page at which a person signs in takes its name from
// the query: `?account=NAME`; `?cancel` refuses.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packages = pathToFileURL(`${process.env.TEST_OIDC_PACKAGES}/node_modules/`);
const { Provider } = await import(new URL("oidc-provider/lib/index.js", packages));

const [redirectUri] = process.argv.slice(2);
const print = (line) => console.log(JSON.stringify(line));
const accounts = new Map();

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), kid: "first", use: "sig", alg: "RS256" };

const client = {
  redirect_uris: [redirectUri],
  grant_types: ["authorization_code", "client_credentials"],
  response_types: ["code"],
};
// An assistant on the machine of a person, which can keep no secret.
const assistant = {
  client_id: "assistant",
  application_type: "native",
  token_endpoint_auth_method: "none",
  redirect_uris: ["http://127.0.0.1/callback"],
};
// Access tokens are JWTs (RFC 9068) for whoever asks for this resource.
const resourceIndicators = {
  enabled: true,
  defaultResource: () => undefined,
  getResourceServerInfo: (_, audience) => ({ scope: "", audience, accessTokenFormat: "jwt" }),
};

const configuration = {
  clients: [
    { ...client, client_id: "knowledge", client_secret: "secret of the tests, with %&+ in it" },
    assistant,
  ],
  jwks: { keys: [key] },
  cookies: { keys: ["not a secret"] },
  claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"], groups: ["groups"] },
  features: { devInteractions: { enabled: false }, clientCredentials: { enabled: true }, resourceIndicators },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, accountId) => ({
    accountId,
    claims: () => ({ sub: accountId, ...accounts.get(accountId) }),
  }),
  async loadExistingGrant(context) {
    const { client, provider, session } = context.oidc;
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid profile email groups");
    await grant.save();
    return grant;
  },
};

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, issuer);
  if (!pathname.startsWith("/interaction/")) return handle(request, response);
  const result = searchParams.has("cancel")
    ? { error: "access_denied", error_description: "<script>alert(1)</script>" }
    : { login: { accountId: searchParams.get("account") }, consent: {} };
  await provider.interactionFinished(request, response, result);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, configuration);
const handle = provider.callback();
print({ issuer });

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { account, claims } = JSON.parse(line);
    accounts.set(account, claims);
    print({ account, claims });
  })
  .on("close", () => process.exit());
