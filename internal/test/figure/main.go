// Command figure draws what the algorithms of package limit make of one workload, for
// docs/algorithms.md:
//
//	go run ./internal/test/figure > docs/algorithms.svg
//	go run ./internal/test/figure -table
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	asTable := flag.Bool("table", false, "print the numbers, as Markdown")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *asTable {
		fmt.Print(table())
	} else {
		fmt.Print(figure())
	}
}

// table is the numbers of the figure, and those for requests at other places of their
// slots.
func table() string {
	var b strings.Builder
	b.WriteString("| Algorithm | first 100 | burst of 100 | last 200 | of 400 | at the middle, at the end of their slots | most in a second |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, a := range algorithms {
		outcomes := a.run(start)
		each, all := tally(outcomes)
		_, atMiddle := tally(a.run(middle))
		_, atEnd := tally(a.run(end))
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d | **%d** | %d, %d | %d |\n",
			a.name, each[0], each[1], each[2], all, atMiddle, atEnd, densest(outcomes))
	}
	return b.String()
}
