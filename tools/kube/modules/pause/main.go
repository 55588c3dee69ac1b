// What the containers of the whole-node test run: nothing for a while, or as much as they are let.
//
//	pause                  until it is asked to end (also what holds a pod's namespaces)
//	pause 5s               for that long, then success
//	pause burn 2           two threads that never rest
//	pause read FILE        prints the file, then as without arguments
//	pause linger 5s FILE   takes that long to end when it is asked to, and writes the file last
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func burn(threads int) {
	runtime.GOMAXPROCS(threads + 1) // one stays free for signals
	for range threads {
		go func() {
			for {
			}
		}()
	}
}

func read(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		fail(err.Error())
	}
	os.Stdout.Write(content)
}

func duration(text string) time.Duration {
	span, err := time.ParseDuration(text)
	if err != nil {
		fail("usage: pause [DURATION | burn THREADS | read FILE | linger DURATION FILE]")
	}
	return span
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(2)
}

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	var done <-chan time.Time
	last := func() {}
	switch {
	case len(os.Args) == 1:
	case len(os.Args) == 3 && os.Args[1] == "burn":
		threads, err := strconv.Atoi(os.Args[2])
		if err != nil || threads < 1 {
			fail("burn: how many threads?")
		}
		burn(threads)
	case len(os.Args) == 3 && os.Args[1] == "read":
		read(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "linger":
		span := duration(os.Args[2])
		last = func() {
			time.Sleep(span)
			if err := os.WriteFile(os.Args[3], []byte("ended by itself\n"), 0o644); err != nil {
				fail(err.Error())
			}
		}
	default:
		done = time.After(duration(os.Args[1]))
	}
	select {
	case <-asked:
		last()
	case <-done:
	}
}
