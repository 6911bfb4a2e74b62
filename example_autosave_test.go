// Example: a limiter that saves by itself.

package ratelimit_test

import (
	"fmt"
	"log"
	"path/filepath"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// The limiter saves by itself, and the next process goes on from there.
func ExampleAutoPersist() {
	path := filepath.Join(tempDir(), "ratelimits.yaml")
	for process := range 3 {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath:    path,
			Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 30_000}},
			AutoPersist: ratelimit.AutoPersist{Delay: time.Second, MaxWait: 5 * time.Second},
			OnError:     func(err error) { log.Print(err) },
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("process", process, "knows of", rl.Stats("gpt-4o").TPM, "tokens")
		rl.RecordUsage("gpt-4o", 1000, 200)
		if err := rl.Close(); err != nil { // writes what is left
			log.Fatal(err)
		}
	}
	// Output:
	// process 0 knows of 0 tokens
	// process 1 knows of 1200 tokens
	// process 2 knows of 2400 tokens
}
