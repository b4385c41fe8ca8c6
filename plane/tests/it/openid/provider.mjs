// An OpenID provider for tests: argument 1 is where the package `oidc-provider` is. It prints its issuer, and ends with
// its standard input.
//
// Clients: `ci` with the secret `ci-secret`, as a pipeline has one; `fettle`, which is public and asks as a device. Whoever
// logs in is called as the login says, and is in the group `ml`.

import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const { Provider } = await import(pathToFileURL(`${process.argv[2]}/lib/index.js`));

const clients = [
  {
    client_id: 'ci',
    client_secret: 'ci-secret',
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  },
  {
    client_id: 'fettle',
    token_endpoint_auth_method: 'none',
    application_type: 'native',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    redirect_uris: [],
    response_types: [],
  },
];

const server = createServer().listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const resource = { scope: 'plane', audience: 'fettle', accessTokenFormat: 'jwt', accessTokenTTL: 300 };
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub', 'groups'], email: ['email'] },
    conformIdTokenClaims: false,
    extraTokenClaims: () => ({ groups: ['pipelines'] }),
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (context) => (context.oidc.client.clientId === 'ci' ? 'urn:fettle:plane' : undefined),
        getResourceServerInfo: () => resource,
      },
    },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example`, groups: ['ml'] }),
    }),
    issueRefreshToken: () => true,
    ttl: { IdToken: 300, DeviceCode: 60 },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
