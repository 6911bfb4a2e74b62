// Command figure draws what limiters make of a provider whose capacity changes, and prints the
// tables, for docs/adaptive.md:
//
//	go run ./internal/test/adaptivesim/figure > docs/adaptive.svg
//	go run ./internal/test/adaptivesim/figure -table
//	go run ./internal/test/adaptivesim/figure -sweep
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	table := flag.Bool("table", false, "print the figures of the defaults, as Markdown")
	sweep := flag.Bool("sweep", false, "print the figures of other settings, as Markdown; takes two minutes")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var text string
	var err error
	switch {
	case *table:
		text, err = tables(steadyTable, windowsTable, sharesTable, lateTable, slotsTable, throttleTable)
	case *sweep:
		text, err = sweepTable()
	default:
		text, err = figure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figure:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// tables returns some tables, with empty lines between.
func tables(each ...func() (string, error)) (text string, err error) {
	for _, table := range each {
		t, err := table()
		if err != nil {
			return "", err
		}
		text += t + "\n"
	}
	return text, nil
}
