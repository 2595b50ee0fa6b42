module karpenter-ibm/control-plane/groundwork

go 1.25.0
