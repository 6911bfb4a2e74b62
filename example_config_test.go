package ratelimit_test

import (
	"fmt"
	"strings"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// A configuration in YAML. In a program it is a file that os.Open opens.
func ExampleReadConfig() {
	cfg, err := ratelimit.ReadConfig(strings.NewReader(`
file_path: /var/lib/app/ratelimits.yaml
margin: 250ms
auto_persist: {delay: 1s}
quotas:
  gpt-4o: {max_rpm: 500, max_tpm: 30000}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.FilePath, cfg.Margin, cfg.AutoPersist.Delay, cfg.Quotas["gpt-4o"].MaxTPM)

	_, err = ratelimit.ReadConfig(strings.NewReader("file_pth: /tmp/limits.yaml"))
	fmt.Println(err)

	// Output:
	// /var/lib/app/ratelimits.yaml 250ms 1s 30000
	// read config: line 1: file_pth: unknown key
}
