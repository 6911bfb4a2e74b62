// Command timeline draws two minutes of calls to a provider that allows 60 a minute, once with a
// retry loop and once with the library, for README.md:
//
//	go run ./internal/test/timeline -run > internal/test/timeline/run.csv
//	go run ./internal/test/timeline > docs/timeline.svg
//
// The first command makes the calls, over HTTP to a strict provider on this machine, and takes two
// and a half minutes. The second one draws what they were.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
)

//go:embed run.csv
var recorded string

func main() {
	anew := flag.Bool("run", false, "make the calls, and print them")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := show(*anew); err != nil {
		fmt.Fprintln(os.Stderr, "timeline:", err)
		os.Exit(1)
	}
}

func show(anew bool) error {
	if anew {
		text, err := record()
		fmt.Print(text)
		return err
	}
	scenes, err := parse(recorded)
	if err != nil {
		return err
	}
	fmt.Print(draw(scenes))
	return nil
}
