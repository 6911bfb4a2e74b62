// Command ratelimit keeps the calls of any program, in any language, inside the quotas of providers
// of large language models. "ratelimit proxy" is the base URL that clients are given in place of
// the provider's; "ratelimit --help" lists the rest.
package main

import (
	"os"

	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) }
