module berth.sh/tools/pause

go 1.24
